// Arbitrary text as the recipe of an experiment, as a list of seeds and as a file that an experiment keeps: parsed, or
// refused with a status; what was parsed holds together.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "base/files.h"
#include "base/scratch_folder.h"
#include "base/sealed.h"
#include "research/experiment/recipe.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lightcone;  // NOLINT: a file of one function
  static const auto scratch = ScratchFolder::Make("fuzz").value();
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto recipe = ParseRecipe(text, "dir/fuzz.toml");
  if (recipe.ok()) {
    if (recipe->spaces.empty() || recipe->seeds.empty()) std::abort();
    std::set<std::string> names;
    for (const RecipeRow& row : recipe->rows) {
      if (recipe->Space(row.space) == nullptr || !names.insert(row.name).second) std::abort();
    }
  }
  const auto seeds = ParseSeeds(text, "seeds");
  if (seeds.ok() && std::set<uint64_t>(seeds->begin(), seeds->end()).size() != seeds->size()) std::abort();
  const std::string path = scratch->path() + "/sealed.json";
  std::ofstream(path, std::ios::binary) << text;
  const auto sealed = ReadSealed(path);
  if (sealed.ok() && !sealed->is_object()) std::abort();
  return 0;
}
