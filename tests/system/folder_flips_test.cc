// One random bit of one random file of a data folder is flipped: what is answered then is right, or an error that names
// what is damaged. LIGHTCONE_FLIPS says how many, LIGHTCONE_FLIPS_SEED which.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/files.h"
#include "base/status.h"
#include "nlohmann/json.hpp"
#include "spdlog/spdlog.h"
#include "tests/support/temporary_folder.h"
#include "tests/system/data_folder.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;
using server::Engine;

constexpr uint64_t kFlips = 60;

uint64_t FlipNumber(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// The kind of a file, which decides how often it is damaged: each kind as often as any other.
std::string KindOf(const std::string& path) {
  const fs::path file(path);
  const std::string name = file.filename().string();
  const std::string top = path.substr(0, path.find('/'));
  if (top == "snapshots") return name == "manifest.json" && absl::StartsWith(path, "snapshots/first/m") ? name : top;
  if (top == "index") return file.extension() == ".json" ? "index, documents" : "index, columns";
  if (top != "store") return top;
  if (absl::StartsWith(name, "MANIFEST")) return "MANIFEST";
  if (absl::StartsWith(name, "OPTIONS")) return "OPTIONS";
  const std::string extension = file.extension().string();
  return extension.empty() ? name : extension;
}

// Files with content by their kinds.
std::map<std::string, std::vector<std::string>> FilesByKind(const std::string& folder) {
  std::map<std::string, std::vector<std::string>> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.file_size() == 0) continue;
    const std::string path = fs::relative(entry.path(), folder).string();
    files[KindOf(path)].push_back(path);
  }
  for (auto& [kind, paths] : files) std::sort(paths.begin(), paths.end());
  return files;
}

// Whether an error says what is damaged: the file, a file of the same folder that the damage leads to, or table and
// key.
bool NamesDamage(const absl::Status& error, const std::string& path) {
  const std::string text = MessageOf(error);
  const fs::path file(path);
  if (absl::IsFailedPrecondition(error)) return file.filename() == "LIGHTCONE" && absl::StrContains(text, "store");
  if (!absl::IsDataLoss(error)) return false;
  for (const std::string& name :
       {file.filename().string(), std::string("table '"), std::string("CURRENT"), std::string("MANIFEST"),
        std::string(".sst"), std::string("its log can be read up to")}) {
    if (absl::StrContains(text, name)) return true;
  }
  return absl::StrContains(text, "encoder") && absl::StartsWith(path, "encoders/");
}

class Judge {
 public:
  Judge(const std::string& data, const std::string& path, const FolderAnswers& truth, int starts)
      : data_(data), path_(path), truth_(truth), starts_(starts) {}

  // JSON: `outcome` ("right", "named", "refused"), `wrong` (what must not be), `said` (an error), `early` (wrong
  // answers of searches before the index had read its files through).
  std::string Run() {
    for (int start = 0; start < starts_ && wrong_.empty() && outcome_ != "refused"; ++start) Start(start);
    return nlohmann::json({{"outcome", outcome_}, {"wrong", wrong_}, {"said", said_}, {"early", early_}})
        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

 private:
  void Start(int start) {
    const auto engine = Engine::Open(FolderOptions(data_));
    if (!engine.ok()) {
      Named("start", engine.status());
      outcome_ = "refused";
      return;
    }
    const bool of_index = absl::StartsWith(path_, "index/");
    if (of_index && start == 0) {
      for (const auto& [question, answer] : AskSearches(**engine)) {
        early_ += answer.error.ok() && !CompareAnswers(truth_.at(question), answer).empty();
      }
    }
    if (!AwaitIndexChecked(**engine)) wrong_ += "the index is not mended\n";
    if (of_index && early_ > 0 && start == 0) ExpectRebuilt(**engine);
    Compare(AskFolder(**engine));
    if (absl::StartsWith(path_, "encoders/") && start == 0) Compare(AskEncoder(**engine));
  }
  void ExpectRebuilt(Engine& engine) {
    int64_t rebuilds = 0;
    for (const char* const name : {kGallery, kSmall}) {
      const auto status = engine.GetCollection(name);
      if (status.ok()) rebuilds += status->rebuilds_total;
    }
    if (rebuilds == 0) wrong_ += "searches were wrong, and nothing was rebuilt\n";
  }
  void Compare(const FolderAnswers& answers) {
    for (const auto& [question, answer] : answers) {
      if (!answer.error.ok()) {
        Named(question, answer.error);
        continue;
      }
      const std::string differs = CompareAnswers(truth_.at(question), answer);
      if (!differs.empty()) wrong_ += StrCat(question, ": ", differs, "\n");
    }
  }
  void Named(const std::string& question, const absl::Status& error) {
    if (outcome_ == "right") outcome_ = "named";
    if (said_.empty()) said_ = StrCat(question, ": ", error.ToString());
    if (!NamesDamage(error, path_)) wrong_ += StrCat(question, ": names nothing: ", error.ToString(), "\n");
  }

  const std::string data_, path_;
  const FolderAnswers& truth_;
  const int starts_;
  std::string outcome_ = "right", wrong_, said_;
  int early_ = 0;
};

class FolderFlips : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(WriteFolderInChild(base_));
    const ChildEnd whole = RunInChild([this] {
      spdlog::set_level(spdlog::level::off);
      const std::string copy = Copy();
      const auto engine = Engine::Open(FolderOptions(copy));
      if (!engine.ok() || !AwaitIndexChecked(**engine)) return std::string("the folder does not open");
      FolderAnswers answers = AskFolder(**engine);
      answers.merge(AskEncoder(**engine));
      for (const auto& [question, answer] : answers) {
        if (!answer.error.ok()) return StrCat(question, ": ", answer.error.ToString());
      }
      return EncodeAnswers(answers);
    });
    ASSERT_TRUE(whole.exited) << whole.how;
    truth_ = DecodeAnswers(whole.said);
    ASSERT_GT(truth_.size(), 90u) << whole.said.substr(0, 1'000);
  }
  std::string Copy() const {
    const std::string copy = folder_ / "copy";
    fs::remove_all(copy);
    fs::copy(base_, copy, fs::copy_options::recursive);
    return copy;
  }
  static void Flip(const std::string& path, uint64_t bit) {
    std::string bytes = ReadFile(path).value();
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_TRUE(WriteFileAtomically(path, bytes).ok());
  }
  // Judges the flip of a bit in a child, which opens the folder so often. Returns its outcome.
  std::string JudgeFlip(const std::string& path, uint64_t bit, int starts) {
    const std::string copy = Copy();
    Flip(copy + "/" + path, bit);
    const ChildEnd end = RunInChild([&] {
      spdlog::set_level(spdlog::level::off);
      return Judge(copy, path, truth_, starts).Run();
    });
    const std::string what = StrCat("bit ", bit % 8, " of byte ", bit / 8, " of ", path);
    const auto verdict = nlohmann::json::parse(end.said, nullptr, /*allow_exceptions=*/false);
    if (!end.exited || !verdict.is_object()) {
      ADD_FAILURE() << what << ": " << end.how;
      return "crash";
    }
    EXPECT_EQ(verdict["wrong"], "") << what;
    early_ += verdict["early"].get<int>() > 0;
    const std::string outcome = verdict["wrong"] == "" ? verdict["outcome"].get<std::string>() : "wrong";
    if (std::getenv("LIGHTCONE_FLIPS_SHOW") != nullptr) {
      std::printf("%s: %s %s\n", what.c_str(), outcome.c_str(), verdict["said"].get<std::string>().c_str());
    }
    return outcome;
  }

  TemporaryFolder folder_;
  const std::string base_ = folder_ / "base";
  FolderAnswers truth_;
  int early_ = 0;  // flips after which searches were wrong until the index had read its files
};

TEST_F(FolderFlips, LeaveEachAnswerRightOrNameTheDamage) {
  const uint64_t flips = std::max<uint64_t>(1, FlipNumber("LIGHTCONE_FLIPS", kFlips));
  const uint64_t seed = FlipNumber("LIGHTCONE_FLIPS_SEED", 1);
  std::printf("%llu flips by seed %llu\n", static_cast<unsigned long long>(flips),
              static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  const auto files = FilesByKind(base_);
  for (const char* const kind : {".sst", ".log", "MANIFEST", "OPTIONS", "CURRENT", "SYNCED", "LIGHTCONE", "encoders",
                                 "index, documents", "index, columns", "snapshots", "manifest.json"}) {
    ASSERT_TRUE(files.contains(kind)) << kind;
  }
  std::map<std::string, std::map<std::string, int>> outcomes;
  for (uint64_t i = 0; i < flips; ++i) {
    const auto kind = std::next(files.begin(), static_cast<ptrdiff_t>(i % files.size()));
    const std::string& path = kind->second[random() % kind->second.size()];
    const uint64_t bit = random() % (8 * fs::file_size(base_ + "/" + path));
    ++outcomes[kind->first][JudgeFlip(path, bit, i % 4 == 0 ? 2 : 1)];
  }
  for (const auto& [kind, by_outcome] : outcomes) {
    std::string line = kind + ":";
    for (const auto& [outcome, number] : by_outcome) line += StrCat(" ", number, " ", outcome);
    std::printf("%s\n", line.c_str());
  }
  std::printf("%d of them were wrong in a search before the index had read its files\n", early_);
  // A test that damages nothing that is looked at cannot fail.
  EXPECT_GT(outcomes[".sst"]["named"] + outcomes[".sst"]["refused"], 0);
  EXPECT_GT(outcomes["snapshots"]["named"], 0);
}

// RocksDB takes a record that is longer than the rest of the manifest for one that was never written to its end.
TEST_F(FolderFlips, OfALengthInTheManifestAreNamed) {
  constexpr size_t kHeadBytes = 7, kRecords = 12;  // of a record's head; from the end, where the newest tables are
  constexpr uint64_t kBitOfLength = 8 * 5 + 1;     // makes a record longer by 512 bytes
  std::string path;
  for (const auto& entry : fs::directory_iterator(base_ + "/store")) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "MANIFEST")) path = "store/" + name;
  }
  const std::string bytes = ReadFile(base_ + "/" + path).value();
  std::vector<size_t> records;
  for (size_t at = 0; at + kHeadBytes < bytes.size();) {
    records.push_back(at);
    at += kHeadBytes + static_cast<uint8_t>(bytes[at + 4]) + 256u * static_cast<uint8_t>(bytes[at + 5]);
  }
  ASSERT_GT(records.size(), kRecords);
  for (size_t i = records.size() - kRecords; i < records.size(); ++i) {
    EXPECT_EQ(JudgeFlip(path, 8 * records[i] + kBitOfLength, 1), "refused") << "record " << i;
  }
}

}  // namespace
}  // namespace lightcone
