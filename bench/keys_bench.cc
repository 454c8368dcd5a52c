// What the check of a caller costs a call: its key among a thousand, its scope and its collection.
#include <chrono>
#include <filesystem>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "bench/benches.h"
#include "server/auth/access.h"
#include "server/auth/key_file.h"
#include "server/auth/keyring.h"

namespace lightcone::bench {
namespace {

using namespace server;  // NOLINT(google-build-using-namespace): one room's names

constexpr int kKeys = 1'000;
constexpr int kRounds = 9;
constexpr int kChecksPerRound = 20'000;
constexpr double kGoalUs = 5;

absl::Status CheckOnce(auth::Keyring* keys, const std::string& key) {
  LC_ASSIGN_OR_RETURN(const auth::PrincipalPtr principal,
                      keys->Authenticate({.key = key, .certificates = {}, .peer = "ipv4:10.0.0.7:5123"}));
  const auth::Access* access = auth::FindAccess("Retrieval/Search");
  LC_RETURN_IF_ERROR(keys->CheckCall(*principal, access->needed, access->method));
  return keys->CheckCollection(*principal, access->needed, "shop-shoes", "shop-shoes");
}

}  // namespace

absl::Status BenchKeys(const BenchOptions& options, Report& report) {
  std::string lines;
  std::vector<std::string> keys;
  for (int i = 0; i < kKeys; ++i) {
    LC_ASSIGN_OR_RETURN(keys.emplace_back(), auth::MakeKey());
    auth::KeyEntry entry;
    entry.name = StrCat("key-", i);
    entry.hash = auth::HashOf(keys.back());
    entry.grant = {auth::kRead, {"news-*", "shop-*"}};
    lines += auth::LineOf(entry) + "\n";
  }
  LC_RETURN_IF_ERROR(MakeFolders(options.folder));
  const std::string file = options.folder + "/keys";
  LC_RETURN_IF_ERROR(WriteFileAtomically(file, lines));
  LC_ASSIGN_OR_RETURN(const std::unique_ptr<auth::Keyring> keyring, auth::Keyring::Open({.keys_file = file}));
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kChecksPerRound; ++i) LC_RETURN_IF_ERROR(CheckOnce(keyring.get(), keys[(i * 7) % kKeys]));
    const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
    rounds.push_back(spent.count() / kChecksPerRound);
  }
  std::filesystem::remove(file);
  report.AddAtMost("check of a key, a scope and a collection, 1,000 keys", Median(rounds), "us", kGoalUs,
                   Spread(rounds) / Median(rounds));
  return absl::OkStatus();
}

}  // namespace lightcone::bench
