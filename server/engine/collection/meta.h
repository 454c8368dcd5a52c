// The engine's own records in the store: JSON objects with a format version (docs/reference/formats/README.md).
// Encoders never fail; decoders return DATA_LOSS with the record's kind and the field at fault, or FAILED_PRECONDITION
// for a newer format.
// Threads: pure functions and plain values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "geometry/metric.h"
#include "index/api/collection_index.h"
#include "server/engine/api/strict_mode.h"
#include "server/engine/api/validation_types.h"
#include "server/engine/filter/payload_field.h"

namespace lightcone::server {

// Table kCollections. The one record whose change activates a generation.
struct CollectionRecord {
  std::string name;
  Metric metric = Metric::kLorentz;
  double curvature = 1.0;
  IndexSettings index;
  uint32_t active_generation = 0;    // 0: none
  uint32_t last_generation = 0;      // generations are 1 .. last_generation
  std::vector<std::string> aliases;  // ascending
  int64_t created_us = 0;            // microseconds since 1970, UTC
  uint64_t last_adapter_version = 0;
  // What served before the active generation, the latest last, at most kEarlierActiveMax: the way back of rollbacks.
  std::vector<uint32_t> earlier_active;
  // When each probe set was put (microseconds since 1970), by its name: what a validation has to have seen.
  std::map<std::string, int64_t> probe_sets;
  std::vector<PayloadField> payload_fields;  // indexed fields, as the operator named them
  bool require_generation = false;           // an upsert of vectors must name their generation
  int64_t default_ttl_ms = 0;                // of items whose upsert says nothing; 0: they stay
  ForeignVectors foreign_vectors = ForeignVectors::kWarn;
  uint32_t scale_generation = 0;  // generation whose distances bounds of searches mean; 0: each hit's own
  StrictMode strict_mode;
  // Serves a share of the searches that give a key, beside the active generation; 0: none.
  uint32_t canary_generation = 0;
  double canary_share = 0;
  int64_t canary_us = 0;  // start of the canary
};

inline constexpr size_t kEarlierActiveMax = 64;

// Table kGenerations.
struct GenerationRecord {
  uint32_t generation = 0;
  uint32_t parent = 0;  // 0: none
  Space space;
  int compatible_prefix = 0;  // leading numbers that compare with older generations; 0: all
  std::string method;
  bool has_encoder = false;  // The server embeds raw inputs for it.
  bool endpoint = false;     // Its encoder is the endpoint of its manifest, not a file. Then has_encoder is set.
  std::string model;         // model that its vectors come from, by its manifest; empty: not said
  std::string revision;      // revision of `model`; empty: not said
  bool draft = false;        // draft of a training that is not taken up yet
  bool retired = false;      // out of service, for good
  bool removed = false;      // The embeddings of the retired generation are gone.
  int64_t registered_us = 0;
  std::optional<int64_t> activated_us;  // the last time
  std::string activated_by;             // whoever said so then; empty: they did not say
  std::string manifest_json;
  std::shared_ptr<const ValidationReport> validation;  // the last one, passed or not; nullptr: none
};

// Table kGenerations, behind the generations: an adapter. The value is one line of JSON and the adapter's file.
struct AdapterRecord {
  uint32_t from = 0, to = 0;  // generations
  uint64_t version = 0;       // counts the adapters ever put into the collection
  int64_t put_us = 0;
  std::string file;  // models/adapter_file.h; its bytes check themselves
};

// Table kMeta, "progress/<collection>": written with every batch, so that counts and sequences need no scan at a start.
struct ProgressRecord {
  uint64_t sequence = 0;  // sequence of the last write; the change log has no gaps
  uint64_t next_internal_id = 1;
  // Items by the set of generations (ascending) that embedded their content.
  std::map<std::vector<uint32_t>, uint64_t> items;

  uint64_t ItemCount() const {
    uint64_t all = 0;
    for (const auto& [generations, count] : items) all += count;
    return all;
  }
};

// Table kMeta, "backfill/<collection>": the lazy backfill under way. Its failure head, a file, is
// "backfill_head/<...>".
struct BackfillRecord {
  uint32_t generation = 0;       // generation that embeds the items anew
  uint32_t head_generation = 0;  // generation that the failure head is for; 0: no head
  bool ordered = false;          // table kOrder holds the order
  bool paused = false;
  uint64_t ordered_sequence = 0;  // the order knows what had been written then
  int64_t started_us = 0;
  double embed_rate = 0;  // items a second that the server embeds itself; 0: none
  double p99_ms_max = 0;  // latency of searches above which the server embeds less; 0: never
  bool ahead = false;     // begun before the generation serves
};

// Table kMeta, "request/<request id>": what an operator's call did, so that the same call again gives the same answer.
struct RequestRecord {
  std::string method;       // "CreateCollection" ...
  std::string fingerprint;  // digest of the call's content
  uint32_t collection = 0;
  uint32_t generation = 0;
  uint32_t previous_generation = 0;
  uint64_t out_of_reach = 0;
  int64_t time_us = 0;
  uint64_t version = 0;  // PutAdapter: of the adapter
  std::string job = {};  // id of the job that the call began
  // RestoreCollection: of the collection as it came back.
  uint64_t items = 0, sequence = 0;
};

// Table kMeta, "audit/<place>/<collection>": an activation, a rollback, a retirement or a canary, for people.
struct AuditRecord {
  std::string collection = {};
  bool rollback = false;
  uint32_t generation = 0, previous_generation = 0;
  bool forced = false;
  std::string reason = {};
  uint64_t out_of_reach = 0;
  int64_t time_us = 0;
  std::string request_id = {};
  bool retired = false;    // instead of an activation: `generation` was retired while `previous_generation` served
  bool validated = false;  // A valid passing validation stood behind the generation.
  std::optional<double> canary_share = {};  // instead: `generation` has it beside `previous_generation`; 0: no more
  std::string operator_name = {};           // name of the operator, or empty
};

std::string Encode(const CollectionRecord& record);
std::string Encode(const GenerationRecord& record);
std::string Encode(const AdapterRecord& record);
std::string Encode(const ProgressRecord& record);
std::string Encode(const BackfillRecord& record);
std::string Encode(const RequestRecord& record);
std::string Encode(const AuditRecord& record);

absl::StatusOr<CollectionRecord> DecodeCollection(std::string_view bytes);
absl::StatusOr<GenerationRecord> DecodeGeneration(std::string_view bytes);
absl::StatusOr<AdapterRecord> DecodeAdapterRecord(std::string_view bytes);
absl::StatusOr<ProgressRecord> DecodeProgress(std::string_view bytes);
absl::StatusOr<BackfillRecord> DecodeBackfill(std::string_view bytes);
absl::StatusOr<RequestRecord> DecodeRequest(std::string_view bytes);
absl::StatusOr<AuditRecord> DecodeAudit(std::string_view bytes);

// Names in kMeta.
std::string ProgressName(uint32_t collection);
std::string BackfillName(uint32_t collection);
std::string BackfillHeadName(uint32_t collection);
std::string RequestName(std::string_view request_id);
// There while a drop or a restore of the collection is under way: a start removes what is there of it.
std::string DroppingName(uint32_t collection);
// `place`: the time in microseconds, or a place behind the collection's entry before where the clock was ahead then.
std::string AuditName(int64_t place, uint32_t collection);
// Place and collection of a key of kMeta; nothing for another key.
std::optional<std::pair<int64_t, uint32_t>> ParseAuditKey(std::string_view key);
inline constexpr std::string_view kNextCollectionName = "next_collection";
inline constexpr std::string_view kClockName = "clock";  // ForwardClock's time when it was last seen, decimal
inline constexpr std::string_view kRequestPrefix = "request/";
inline constexpr std::string_view kDroppingPrefix = "dropping/";
inline constexpr std::string_view kAuditPrefix = "audit/", kAuditEnd = "audit0";

// Decimal, as values of kMeta "next_collection" and of name keys. DATA_LOSS naming `what`.
absl::StatusOr<uint32_t> ParseNumber(std::string_view text, std::string_view what);

}  // namespace lightcone::server
