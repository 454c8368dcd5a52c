#include "cli/commands/register_model.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>

#include "base/files.h"
#include "base/sealed.h"
#include "base/status.h"
#include "models/adapter_file.h"
#include "models/manifest.h"
#include "nlohmann/json.hpp"

namespace lightcone::cli {
namespace {

// Whether the adapter in the folder was fitted to another encoder than the folder's: it was trained anew since.
bool IsOutdated(const std::string& folder, const Manifest& manifest) {
  const absl::StatusOr<nlohmann::ordered_json> seal = ReadSealed(ModelAdapterSealPath(folder));
  return seal.ok() && seal->value("new_crc32c", uint64_t{0}) != manifest.encoder_crc32c;
}

// Whether the server will take it between that generation and the model, which it has not yet.
absl::Status CheckPair(const AdapterFile& adapter, const v1::GenerationInfo& from, const Manifest& manifest) {
  LC_ASSIGN_OR_RETURN(const Space to, SpaceOf(manifest));
  const std::string name = StrCat("generation ", from.generation());
  if (static_cast<uint32_t>(adapter.spec.input_dimension) != from.dimension()) {
    return InvalidField("adapter.input_dimension", StrCat(adapter.spec.input_dimension),
                        StrCat(from.dimension(), ", of ", name));
  }
  // The generations of a collection share its metric.
  const Space space{to.metric, static_cast<int>(from.dimension()), from.curvature(), from.clip_radius()};
  return CheckFittedBetween(adapter, {name, EncoderCrc32cOf(from.manifest_json()), space},
                            {StrCat("'", manifest.name, "'"), manifest.encoder_crc32c, to});
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

uint32_t ChooseOldGeneration(const google::protobuf::RepeatedPtrField<v1::GenerationInfo>& generations,
                             uint32_t encoder_crc32c, uint32_t parent, uint32_t below) {
  std::tuple<bool, bool, uint32_t> best{};
  for (const v1::GenerationInfo& one : generations) {
    if (one.state() == v1::GENERATION_STATE_RETIRED || one.state() == v1::GENERATION_STATE_DRAFT) continue;
    if ((parent != 0 && one.generation() != parent) || (below != 0 && one.generation() >= below)) continue;
    const uint32_t encoder = EncoderCrc32cOf(one.manifest_json());
    const bool unknown = encoder == 0 && parent != 0;  // The operator's word counts then.
    if (!unknown && (encoder == 0 || encoder != encoder_crc32c)) continue;
    best = std::max(
        best, std::tuple(one.state() == v1::GENERATION_STATE_ACTIVE, one.items() > 0, uint32_t{one.generation()}));
  }
  return std::get<2>(best);
}

absl::StatusOr<ModelAdapter> FindModelAdapter(client::Client& client, const std::string& collection,
                                              const std::string& folder, uint32_t parent, uint32_t below) {
  LC_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(folder));
  const std::string file = ModelAdapterPath(folder);
  std::error_code ignored;
  const bool there = std::filesystem::exists(file, ignored);
  ModelAdapter found;
  if (!there && !EndsWithAdapter(manifest.method)) return found;
  if (!there || IsOutdated(folder, manifest)) {
    found.note = StrCat("'", file, there ? "' was fitted to another encoder than the folder's" : "' is missing",
                        ": the `lightcone train` that made the model fits it when it is given again");
    return found;
  }
  v1::GenerationsListRequest list;
  list.set_collection(collection);
  LC_ASSIGN_OR_RETURN(const v1::GenerationsListResponse all, client.AllGenerations(list));
  found.from = ChooseOldGeneration(all.generations(), manifest.parent_crc32c, parent, below);
  if (found.from > 0) {
    const auto from = std::find_if(all.generations().begin(), all.generations().end(),
                                   [&](const v1::GenerationInfo& one) { return one.generation() == found.from; });
    LC_ASSIGN_OR_RETURN(const AdapterFile adapter, ReadAdapter(file));
    const absl::Status fits = CheckPair(adapter, *from, manifest);
    if (fits.ok()) {
      found.file = file;
    } else {
      found.note = StrCat("'", file, "' is left out, it does not lead from generation ", found.from,
                          " to the model: ", MessageOf(fits));
    }
  } else {
    found.note = StrCat(
        "'", file, "' carries the items of the model '", manifest.parent, "', which ",
        parent > 0 ? StrCat("generation ", parent, " is not") : StrCat("no generation of '", collection, "' holds"),
        ": it is left out");
  }
  return found;
}

}  // namespace lightcone::cli
