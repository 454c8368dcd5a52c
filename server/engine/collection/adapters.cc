#include "server/engine/collection/adapters.h"

#include <algorithm>
#include <string>

#include "base/dcheck.h"
#include "base/files.h"
#include "base/mix.h"
#include "base/status.h"

namespace lightcone::server {
namespace {

AdapterEnd EndOf(const GenerationRecord& generation) {
  return {StrCat("generation ", generation.generation), EncoderCrc32cOf(generation.manifest_json), generation.space};
}

}  // namespace

uint64_t ItemInFit(uint64_t internal_id) { return Mixed(internal_id) >> 33; }

bool KnowHeldOut(std::span<const ServedAdapter* const> adapters) {
  return !adapters.empty() && std::all_of(adapters.begin(), adapters.end(),
                                          [](const ServedAdapter* a) { return a->fit.held_out_from != 0; });
}

bool AllHeldOut(std::span<const ServedAdapter* const> adapters, uint64_t internal_id) {
  LC_DCHECK(KnowHeldOut(adapters));
  const uint64_t item = ItemInFit(internal_id);
  return std::all_of(adapters.begin(), adapters.end(),
                     [item](const ServedAdapter* a) { return PlaceInFit(a->fit.seed, item) >= a->fit.held_out_from; });
}

absl::StatusOr<AdapterFile> ReadAdapterFor(const GenerationRecord& from, const GenerationRecord& to,
                                           std::string_view file) {
  absl::StatusOr<AdapterFile> parsed = ParseAdapter(file);
  // A damaged upload is the caller's: the server's own data is whole.
  if (absl::IsDataLoss(parsed.status())) {
    return InvalidArgument(StrCat("field 'adapter' is no adapter file: ", MessageOf(parsed.status())));
  }
  if (!parsed.ok()) return Annotate(parsed.status(), "field 'adapter'");
  const AdapterSpec& spec = parsed->spec;
  const AdapterDirection direction = DirectionOf(from.generation, to.generation);
  if (spec.direction != direction) {
    return InvalidField("adapter.direction", AdapterDirectionName(spec.direction),
                        StrCat(AdapterDirectionName(direction), ", from generation ", from.generation, " to ",
                               to.generation, ": queries are carried to older generations, items to newer ones"));
  }
  if (spec.input_dimension != from.space.dimension) {
    return InvalidField("adapter.input_dimension", StrCat(spec.input_dimension),
                        StrCat(from.space.dimension, ", of generation ", from.generation));
  }
  LC_RETURN_IF_ERROR(CheckFittedBetween(*parsed, EndOf(from), EndOf(to)));
  return parsed;
}

absl::StatusOr<std::shared_ptr<const ServedAdapter>> ServeAdapter(const AdapterRecord& record, const AdapterFile& file,
                                                                  const AdapterCaches& caches) {
  LC_DCHECK(ParseAdapter(record.file).ok());
  LC_ASSIGN_OR_RETURN(Adapter adapter, Adapter::Make(file.spec));
  AdapterStatus status;
  status.from = record.from;
  status.to = record.to;
  status.version = record.version;
  status.direction = file.spec.direction;
  status.kind = file.spec.kind;
  status.input_dimension = file.spec.input_dimension;
  status.output_dimension = file.spec.output_dimension();
  status.width = file.spec.width;
  status.loss = file.fit.loss;
  status.pairs = file.fit.pairs;
  status.held_out_error = file.fit.held_out_error;
  status.matched = file.fit.matched;
  status.bytes = static_cast<int64_t>(record.file.size());
  status.crc32c = Crc32c(record.file);
  status.put = absl::FromUnixMicros(record.put_us);
  auto served = std::make_shared<ServedAdapter>(std::move(status), file.fit, std::move(adapter));
  if (file.spec.direction == AdapterDirection::kItem) {
    served->rows = std::make_unique<AdaptedRows>(&served->adapter, caches.memory);
    if (caches.disk == nullptr) return std::shared_ptr<const ServedAdapter>(std::move(served));
    served->carried = std::make_unique<CarriedSegments>(&served->adapter, served->status.crc32c,
                                                        StrCat(caches.folder, "/", record.version), caches.disk);
  }
  return std::shared_ptr<const ServedAdapter>(std::move(served));
}

}  // namespace lightcone::server
