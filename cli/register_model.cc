#include "cli/register_model.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/files.h"
#include "base/status.h"
#include "models/manifest.h"
#include "nlohmann/json.hpp"
#include "trainer/experiment/sealed.h"
#include "trainer/methods/method.h"

namespace lightcone::cli {
namespace {

// Of the encoder that a manifest describes; 0 where it does not say, as one from elsewhere.
uint64_t EncoderOf(const std::string& manifest_json) {
  const auto manifest = nlohmann::json::parse(manifest_json, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object()) return 0;
  const auto found = manifest.find("encoder_crc32c");
  return found != manifest.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

// Whether the adapter in the folder was fitted to another encoder than the folder's: it was trained anew since.
bool IsOutdated(const std::string& folder, const Manifest& manifest) {
  const absl::StatusOr<nlohmann::ordered_json> seal = ReadSealed(ModelAdapterSealPath(folder));
  return seal.ok() && seal->value("new_crc32c", uint64_t{0}) != manifest.encoder_crc32c;
}

}  // namespace

absl::Status SetModelFolder(const std::string& folder, const std::string& encoder, v1::RegisterRequest* request) {
  LC_ASSIGN_OR_RETURN(*request->mutable_manifest_json(), ReadFile(folder + "/manifest.json", 16 << 20));
  LC_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(folder));
  LC_ASSIGN_OR_RETURN(*request->mutable_encoder(),
                      ReadFile(encoder.empty() ? StrCat(folder, "/", manifest.encoder_file) : encoder));
  return absl::OkStatus();
}

std::string ModelAdapterPath(const std::string& folder) { return folder + "/old-items.adapter"; }

std::string ModelAdapterSealPath(const std::string& folder) { return ModelAdapterPath(folder) + ".json"; }

absl::StatusOr<ModelAdapter> FindModelAdapter(client::Client& client, const std::string& collection,
                                              const std::string& folder, uint32_t parent) {
  LC_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(folder));
  const std::string file = ModelAdapterPath(folder);
  const MethodInfo* const method = FindTrainingMethod(manifest.method);
  std::error_code ignored;
  const bool there = std::filesystem::exists(file, ignored);
  ModelAdapter found;
  if (!there && (method == nullptr || !method->ends_with_adapter)) return found;
  if (!there || IsOutdated(folder, manifest)) {
    found.note = StrCat("'", file, there ? "' was fitted to another encoder than the folder's" : "' is missing",
                        ": the `lightcone train` that made the model fits it when it is given again");
    return found;
  }
  v1::GenerationsListRequest list;
  list.set_collection(collection);
  LC_ASSIGN_OR_RETURN(const v1::GenerationsListResponse all, client.ListGenerations(list));
  for (const v1::GenerationInfo& one : all.generations()) {
    if (one.state() == v1::GENERATION_STATE_RETIRED || (parent != 0 && one.generation() != parent)) continue;
    const uint64_t encoder = EncoderOf(one.manifest_json());
    const bool unknown = encoder == 0 && parent != 0;  // then the operator's word counts
    if (encoder == manifest.parent_crc32c || unknown) found.from = std::max(found.from, one.generation());
  }
  if (found.from > 0) {
    found.file = file;
  } else {
    found.note = StrCat("'", file, "' carries the items of the model '", manifest.parent, "', which ",
                        parent > 0 ? StrCat("generation ", parent, " is not")
                                   : StrCat("no generation of '", collection, "' holds"),
                        ": it is left out");
  }
  return found;
}

}  // namespace lightcone::cli
