// Reads every *.json of a folder of golden vectors and recomputes it. The folder is $LIGHTCONE_GOLDEN_DIR, else
// <source>/../shared/golden, else the few files in tests/golden/data. An unknown or unreadable file is a failure, so
// that nothing passes unread. Exit status 0: at least one file passed and none failed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/golden/cases.h"

namespace lightcone::golden {
namespace {

struct Kind {
  std::string_view prefix;               // of the file's "name"
  void (*check)(const Json&, Checker&);  // null: a method this version does not have
};

// The first prefix that fits wins: lorentz_mlr before lorentz.
constexpr Kind kKinds[] = {
    {"lorentz_mlr_", CheckLorentzMlr},
    {"lorentz_", CheckLorentz},
    {"fp32_geodesic_", CheckFloat32Geodesic},
    {"rescale_clip_", CheckRescaleClip},
    {"entail_grad_", CheckEntailment},
    {"rince_", CheckRince},
    {"ranking_metrics", CheckRankingMetrics},
    {"p_com_p_up", CheckPComPUp},
    {"server_ranking_", CheckServerRanking},
    {"mixbct_", CheckMixbct},
    {"bt2_", CheckBt2},
    {"hypmix_", CheckHypMix},
    {"euclid_baselines", CheckEuclidBaselines},
};

enum class Outcome { kPassed, kFailed, kNotCovered };

Outcome Fail(const std::string& name, const std::string& report) {
  std::printf("FAILED       %s\n%s", name.c_str(), report.c_str());
  return Outcome::kFailed;
}

Outcome CheckParsed(const std::string& label, const Json& file) {
  const std::string name = file.at("name").get<std::string>();
  const auto* kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return name.starts_with(k.prefix); });
  if (kind == std::end(kKinds)) return Fail(label, "    no check knows the name '" + name + "'\n");
  if (kind->check == nullptr) {
    std::printf("not covered  %s\n", label.c_str());
    return Outcome::kNotCovered;
  }
  Checker check({file.at("abs_tol").get<double>(), file.at("rel_tol").get<double>()});
  kind->check(file, check);
  if (!check.ok()) return Fail(label, check.report());
  if (check.comparisons() == 0) return Fail(label, "    nothing was compared\n");
  std::printf("passed       %s (%d comparisons)\n", label.c_str(), check.comparisons());
  return Outcome::kPassed;
}

Outcome CheckFile(const std::filesystem::path& path) {
  const std::string label = path.filename().string();
  try {
    std::ifstream in(path);
    if (!in) return Fail(label, "    cannot be opened\n");
    return CheckParsed(label, Json::parse(in));
  } catch (const std::exception& error) {
    return Fail(label, std::string("    unreadable: ") + error.what() + "\n");
  }
}

std::filesystem::path GoldenFolder() {
  if (const char* folder = std::getenv("LIGHTCONE_GOLDEN_DIR"); folder != nullptr && *folder != '\0') return folder;
  const std::filesystem::path source = LIGHTCONE_SOURCE_DIR;
  const std::filesystem::path shared = source / ".." / "shared" / "golden";
  return std::filesystem::is_directory(shared) ? shared : source / "tests" / "golden" / "data";
}

int Run() {
  const std::filesystem::path folder = GoldenFolder();
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  if (error) {
    std::printf("cannot list %s: %s\n", folder.c_str(), error.message().c_str());
    return 1;
  }
  std::sort(files.begin(), files.end());
  int passed = 0, failed = 0, not_covered = 0;
  for (const auto& path : files) {
    switch (CheckFile(path)) {
      case Outcome::kPassed:
        ++passed;
        break;
      case Outcome::kFailed:
        ++failed;
        break;
      case Outcome::kNotCovered:
        ++not_covered;
        break;
    }
  }
  std::printf("%d passed, %d failed, %d not covered (%s)\n", passed, failed, not_covered, folder.c_str());
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace lightcone::golden

int main() { return lightcone::golden::Run(); }
