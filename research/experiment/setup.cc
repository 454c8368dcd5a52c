#include "research/experiment/setup.h"

#include <fcntl.h>
#include <sys/file.h>
#include <torch/version.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"
#include "base/status.h"
#include "base/version.h"
#include "research/experiment/plan.h"
#include "research/experiment/scenario.h"

namespace lightcone {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kSetupBytesMax = int64_t{256} << 20;

absl::Status CheckName(const std::string& name) {
  for (const char* taken : {"", ".", "..", "models", "figures", "adapters", "lock"}) {
    if (name == taken) {
      return InvalidField("recipe", StrCat("'", name, "'"),
                          "a file of another name: its folder beside the results is taken");
    }
  }
  return absl::OkStatus();
}

// Takes what --resume leaves open from the experiment that stands there, and refuses another one.
absl::Status Resume(const ExperimentOptions& options, ExperimentSetup* setup) {
  const std::string path = setup->folder() + "/experiment.json";
  const absl::StatusOr<std::string> text = ReadFile(path, kSetupBytesMax);
  if (absl::IsNotFound(text.status())) {
    return NotFound(StrCat("--resume: no experiment stands in '", setup->folder(), "'"));
  }
  LC_RETURN_IF_ERROR(text.status());
  const ordered_json json = ordered_json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto is_text = [&](const char* key) { return json.contains(key) && json[key].is_string(); };
  if (!json.is_object() || !is_text("recipe_text") || !is_text("data") || !json.contains("seeds") ||
      !json["seeds"].is_array()) {
    return DataLoss(StrCat("'", path, "' is damaged; without --resume it is written anew"));
  }
  const auto differs = [&](const char* field, const std::string& now, const std::string& before) {
    return FieldError(absl::StatusCode::kFailedPrecondition, field, now,
                      StrCat(before, ", as in '", path, "'; without --resume what changed is trained anew"));
  };
  if (json["recipe_text"].get<std::string>() != setup->recipe.text) {
    return differs("recipe", "another text", "the text that the experiment was begun with");
  }
  const std::string data = json["data"].get<std::string>();
  if (!options.data.empty() && options.data != data) return differs("--data", options.data, data);
  setup->data = data;
  std::vector<uint64_t> seeds;
  std::string shown;
  for (const ordered_json& seed : json["seeds"]) {
    if (!seed.is_number_unsigned()) return DataLoss(StrCat("'", path, "' is damaged: a seed is no number"));
    seeds.push_back(seed.get<uint64_t>());
    shown += StrCat(shown.empty() ? "" : ",", seeds.back());
  }
  if (!options.seeds.empty() && options.seeds != seeds) return differs("--seeds", "another list", shown);
  setup->seeds = std::move(seeds);
  const ordered_json now = SetupJson(*setup);
  for (const char* program : {"lightcone", "libtorch"}) {
    const std::string before = is_text(program) ? json[program].get<std::string>() : "unknown";
    if (before == now[program]) continue;
    setup->notes.push_back(StrCat("this experiment was begun with ", program, " ", before, " and goes on with ",
                                  now[program].get<std::string>(), "; models that are there are used as they are"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ExperimentSetup> SetUp(const ExperimentOptions& options) {
  ExperimentSetup setup;
  LC_ASSIGN_OR_RETURN(setup.recipe, OpenRecipe(options.recipe));
  LC_RETURN_IF_ERROR(CheckName(setup.recipe.name));
  if (options.out.empty()) return InvalidField("--out", "empty", "a folder");
  setup.out = options.out;
  setup.data = options.data.empty() ? setup.recipe.data : options.data;
  setup.seeds = options.seeds.empty() ? setup.recipe.seeds : options.seeds;
  if (options.resume) LC_RETURN_IF_ERROR(Resume(options, &setup));
  if (setup.data != "glyphs" && setup.data.find(':') == std::string::npos) {
    return InvalidField("--data", options.data.empty() ? "absent" : StrCat("'", options.data, "'"),
                        setup.recipe.data_help.empty() ? StrCat(setup.recipe.data, ":DIR") : setup.recipe.data_help);
  }
  return setup;
}

absl::StatusOr<Dataset> OpenWhole(const ExperimentSetup& setup, uint64_t seed) {
  absl::StatusOr<Dataset> whole = OpenDataset(setup.data, seed);
  if (!whole.ok()) return Annotate(whole.status(), "data");
  if (setup.recipe.validation > 0) {
    LC_RETURN_IF_ERROR(Annotate(HoldOut(setup.recipe.validation, seed, &*whole), "data"));
  }
  return whole;
}

ordered_json SetupJson(const ExperimentSetup& setup) {
  return {{"format", kExperimentFormat}, {"lightcone", kVersion},       {"compiler", __VERSION__},
          {"libtorch", TORCH_VERSION},   {"recipe", setup.recipe.name}, {"recipe_text", setup.recipe.text},
          {"data", setup.data},          {"seeds", setup.seeds}};
}

absl::StatusOr<std::unique_ptr<ExperimentLock>> ExperimentLock::Take(const std::string& out) {
  LC_RETURN_IF_ERROR(MakeFolders(out));
  const std::string path = out + "/lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, "open", path);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    ::close(fd);
    if (error == EWOULDBLOCK) return FailedPrecondition(StrCat("another experiment is at work in '", out, "'"));
    return ErrnoStatus(error, "lock", path);
  }
  return std::unique_ptr<ExperimentLock>(new ExperimentLock(fd));
}

ExperimentLock::~ExperimentLock() { ::close(fd_); }

}  // namespace lightcone
