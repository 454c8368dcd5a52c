// What goes into the engine and comes out of it. No protobuf, no gRPC: the RPC layer converts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/call_meter.h"
#include "base/trace.h"
#include "geometry/adapter.h"
#include "geometry/metric.h"
#include "index/api/collection_index.h"
#include "server/engine/api/strict_mode.h"
#include "server/engine/filter/filter.h"
#include "server/engine/filter/payload_field.h"
#include "server/engine/filter/payload_selection.h"
#include "store/records.h"
#include "store/store.h"

namespace lightcone::server {

struct ValidationReport;  // server/engine/api/validation_types.h

// What every call carries. `cancelled` may be empty.
struct CallContext {
  absl::Time deadline = absl::InfiniteFuture();
  std::function<bool()> cancelled;
  // About the bytes on the wire that the caller takes in one answer. Get and Search fail above it, and a page of Scroll
  // ends before it. 0: any number.
  int64_t answer_bytes_max = 0;
  std::string caller = {};  // name of the key, token or certificate that the caller showed; empty: none was asked for
  // Whether the caller may see a collection of this name; empty: every one.
  std::function<bool(const std::string& collection)> sees = {};
  // Whether the caller may write to the collection of this name, where a read may write; empty: to every one.
  std::function<bool(const std::string& collection)> may_write = {};
  TraceId trace_id = {};   // id for logs; empty: neither has the caller sent `traceparent`, nor is the call traced
  Trace* trace = nullptr;  // null: the call is not traced
  std::shared_ptr<CallMeter> meter = nullptr;  // counts what Upsert, Get, Search and Scroll move; null: nobody does
};

// Raw input: the bytes of a PNG, JPEG or WebP file, a normalised tensor C x H x W, or a text in UTF-8.
struct TensorInput {
  std::vector<uint32_t> shape;
  std::vector<float> values;
};
struct TextInput {
  std::string text;
};
using RawInput = std::variant<std::string /*image file*/, TensorInput, TextInput>;

struct UpsertItem {
  ItemId id;
  std::variant<std::vector<float>, RawInput> content;  // a vector before the clip, or an input to embed
  std::string payload_json;                            // "" means {}
  // Written only while the item's `sequence` is this one (0: while there is no such item), else left out.
  std::optional<uint64_t> expected_sequence;
  // Milliseconds after which the item is gone; 0: it stays. Absent: the collection's default_ttl_ms.
  std::optional<int64_t> ttl_ms = {};
};
inline constexpr int64_t kTtlMaxMs = int64_t{36'600} * 86'400'000;  // about a hundred years

// What becomes of vectors that do not look like those of their generation's model.
enum class ForeignVectors : uint32_t {
  kWarn,    // warnings in answers, log and metrics
  kReject,  // refusals too, once an alarm about single vectors is on
  kIgnore,  // no look at them
};

struct UpsertBatch {
  std::string collection;
  uint32_t generation = 0;  // 0: the active one
  std::vector<UpsertItem> items;
  Durability durability = Durability::kDurable;
  bool same_content = false;  // see UpsertRequest.same_content
  bool keep_payload = false;  // New content keeps the stored item's payload and time; NOT_FOUND where there is none.
  bool keep_input = false;
  std::string model = {};  // model that made the vectors, which the generation's manifest must name; empty: not said
};

struct WriteResult {
  uint64_t sequence = 0;
  uint32_t generation = 0;
  uint32_t items = 0;                   // upserted, or found and deleted
  std::vector<uint32_t> outdated = {};  // places of items that were left out by their expected_sequence
  std::vector<std::string> warnings = {};
};

struct QueryByItem {
  ItemId id;
};
// A query as an older generation embeds it.
struct OlderVector {
  uint32_t generation = 0;
  std::vector<float> z;
};
struct Query {
  std::variant<std::vector<float>, RawInput, QueryByItem> content;
  std::vector<float> canary_vector;             // the same query by the canary's generation, beside a vector; or empty
  bool is_canary_vector = false;                // `content` is what the call had as canary_vector
  std::vector<OlderVector> older_vectors = {};  // beside a vector; each generation at most once
  bool is_computed = false;                     // A vector that no model gave, but arithmetic with several.
  absl::Status error;  // set by the RPC layer when the query could not be converted; the engine passes it on
};

// The best groups of hits that share a value of a payload field.
struct GroupBy {
  std::string field;
  int64_t groups = 10;
  int64_t group_size = 3;  // groups * group_size is at most limits.k_max
};

// Which adapters a search may use: all that the collection has, none, or those of one direction.
enum class AdapterMode { kDefault, kNone, kQuery, kItem };

struct SearchCall {
  std::string collection;
  uint32_t generation = 0;
  std::vector<Query> queries;
  int64_t k = 10;
  std::optional<FilterNode> filter;
  bool exact = false;
  int ef = 0;
  int nprobe = 0;
  double target_recall = 0;  // 0: none; else above 0, up to 1, `ef` and `nprobe` are 0 and `exact` is false
  bool with_payload = false;
  bool with_vector = false;
  uint64_t wait_for_sequence = 0;
  std::vector<uint32_t> evaluate_generations;  // reach override, for evaluation only
  AdapterMode adapter_mode = AdapterMode::kDefault;
  bool profile = false;                   // SearchAnswer::profile is wanted
  std::string canary_key;                 // key that chooses active generation or canary, with generation 0
  int64_t offset = 0;                     // nearest hits that are left out; with k at most limits.k_max
  std::optional<double> score_threshold;  // least score of a hit
  std::optional<double> distance_max;     // greatest distance of a hit
  std::optional<double> relevance_min;    // least EngineHit::relevance of a hit, 0 .. 1
  uint32_t scale_generation = 0;          // generation whose distances bounds mean; 0: the collection's setting
  PayloadSelection payload;               // needs with_payload
  std::string model = {};                 // model that made the vectors; empty: not said
  std::optional<GroupBy> group_by = {};   // groups of hits in place of hits; `k` and `offset` are 0
  bool embed_older = false;               // raw inputs are embedded by older generations, too
  int64_t refresh_top = 0;                // first candidates of a query that are embedded anew where they are older
};

// How a search went about it.
struct LegProfile {
  size_t query = 0;
  uint32_t generation = 0;
  int64_t rows_scored = 0, rows_refined = 0, rows_reranked = 0, rows_adapted = 0;
  std::vector<SegmentProfile> segments;  // a scan where an item adapter carried every row
  bool fused = false;                    // ranked by the vectors of two generations
  double older_weight = 0;               // weight of the older one's
  bool conditioned = false;              // as OlderShare::conditioned
};
struct SearchProfile {
  std::vector<LegProfile> legs;                               // finished ones
  std::vector<std::string> indexed_fields, unindexed_fields;  // filter fields answered by an index, by reading payloads
  double compile_ms = 0;                                      // time to make bitmaps of the filter
  int64_t payloads_read = 0;                                  // payloads that the filter read
};

struct EngineHit {
  ItemId id;
  double distance = 0;
  double score = 0;
  uint32_t generation = 0;
  double uncertainty = 0;
  std::string payload_json;
  std::vector<float> vector;
  std::string segment = {};                    // kind of the index segment that held it: "growing", "hnsw" ...
  uint64_t internal_id = 0;                    // content that was found
  std::optional<double> relevance = {};        // chance that it is relevant, 0 .. 1
  std::optional<double> scaled_distance = {};  // distance on the scale of SearchAnswer::scale_generation
};

// Value of a payload field that stands for a group or is counted.
using FieldValue = std::variant<std::string, int64_t, double, bool>;

struct HitGroup {
  FieldValue value;
  std::vector<EngineHit> hits;  // best first
};

struct QueryAnswer {
  absl::Status status;  // status of this query alone
  std::vector<EngineHit> hits;
  std::vector<HitGroup> groups = {};  // groups by their best hit, where the search asked for them
};

// What became of the candidates that a search was to embed anew. Each is counted once.
struct SearchRefresh {
  int64_t candidates = 0;     // candidates that older generations had embedded
  int64_t refreshed = 0;      // candidates that were embedded, and are ranked by their new embedding
  int64_t without_input = 0;  // candidates without a stored input
  int64_t late = 0;           // candidates for which the deadline left no time
  int64_t over_budget = 0;    // candidates beyond the rate, or the number of searches that may embed
  int64_t failed = 0;         // candidates that the encoder refused, or was not asked for after it failed
  int64_t changed = 0;        // candidates that others replaced, deleted or embedded meanwhile
  std::string error;          // first error of the encoder; empty: none
};

// What bounds on the distances of one generation mean for the hits of another.
struct ScaledBound {
  uint32_t item_generation = 0;
  bool fused = false;  // whether it is of hits that the vectors of two generations rank
  double distance_max = 0;
};

struct SearchAnswer {
  std::vector<QueryAnswer> results;
  uint32_t serving_generation = 0;
  uint64_t out_of_reach = 0;
  bool partial = false;
  uint64_t sequence = 0;
  bool reach_overridden = false;
  double filter_share = 1;  // estimated share of the items that pass the filter
  std::optional<SearchProfile> profile;
  bool canary = false;                        // the canary's generation served
  std::string older_error = {};               // first error of an older generation's encoder, with embed_older
  std::optional<SearchRefresh> refresh = {};  // set where the call has refresh_top
  std::vector<std::string> warnings = {};
  uint32_t scale_generation = 0;         // generation whose distances the bounds mean; 0: each hit's own
  std::vector<ScaledBound> bounds = {};  // bounds that distance_max and score_threshold became
  std::vector<uint32_t> unscaled = {};   // generations whose hits have no scaled_distance, not being measured
};

struct StoredItem {
  ItemId id;
  std::string payload_json;
  uint32_t generation = 0;
  std::vector<uint32_t> generations;
  double uncertainty = 0;
  std::vector<float> vector;
  uint64_t sequence = 0;
  bool has_input = false;
  std::optional<absl::Time> expires = {};  // time from which the item is gone
};

// What Get and Scroll show of an item.
struct ItemParts {
  ItemParts(bool vector = false, PayloadSelection selection = {})  // NOLINT: most callers say true or false.
      : with_vector(vector), payload(std::move(selection)) {}
  bool with_vector = false;
  PayloadSelection payload;
};

struct GetAnswer {
  std::vector<StoredItem> items;
  std::vector<ItemId> missing;
};

struct ScrollPage {
  std::vector<StoredItem> items;
  std::string token;       // empty: the end
  std::string collection;  // name of the collection that was read, where the call named an alias too
};

// Deletes items that pass a filter, in the order of their ids: one batch.
struct DeleteByFilterCall {
  std::string collection;
  FilterNode filter;
  int64_t limit = 0;  // most items; 0: limits.batch_items_max, which no call is above
  std::string token;  // where an earlier call ended; empty: from the beginning
  Durability durability = Durability::kDurable;
};

struct DeleteByFilterAnswer {
  uint64_t sequence = 0;
  uint32_t deleted = 0;
  std::string token;  // empty: no more items pass
};

struct CountAnswer {
  uint64_t count = 0;
  std::vector<std::pair<uint32_t, uint64_t>> by_generation;
};

struct CreateCollectionCall {
  std::string request_id;
  std::string name;
  Metric metric = Metric::kLorentz;
  double curvature = 1.0;
  // A request is recognised by what it said, not by what that meant when it came.
  IndexChange index;
  IndexSettings index_defaults;              // the server's, for what `index` leaves open: no part of what is asked
  std::vector<PayloadField> payload_fields;  // fields with an index
  bool require_generation = false;           // CollectionStatus::require_generation
  int64_t default_ttl_ms = 0;                // CollectionStatus::default_ttl_ms
  ForeignVectors foreign_vectors = ForeignVectors::kWarn;
  StrictMode strict_mode = {};
};

// Settings to change; an absent one stays as it is.
struct UpdateCollectionCall {
  std::string request_id;
  std::string collection;
  std::optional<bool> require_generation;
  std::optional<int64_t> default_ttl_ms = {};
  std::optional<ForeignVectors> foreign_vectors = {};
  std::optional<uint32_t> scale_generation = {};
  std::optional<StrictMode> strict_mode = {};  // its absent members stay as they are
};

// Payload indexes to add and to drop, online.
struct IndexPayloadCall {
  std::string request_id;
  std::string collection;
  std::vector<PayloadField> add;
  std::vector<std::string> drop;  // paths
  bool wait = false;              // answer when all are built
};

// What a collection has noticed of the vectors of one generation since it was learnt.
struct ModelWatchStatus {
  struct Stream {
    int64_t foreign = 0;              // vectors that the model hardly gives
    std::vector<std::string> alarms;  // "directions", "some_directions", "lengths", "place"
  };
  uint32_t generation = 0;
  int64_t rows_learnt = 0;        // rows of the generation when it was learnt
  bool tells_directions = false;  // directions of its own, apart from random ones
  Stream rows, queries;
};

struct CollectionStatus {
  std::string name;
  Metric metric = Metric::kLorentz;
  double curvature = 1.0;
  IndexSettings index;
  bool require_generation = false;  // an upsert of vectors must name their generation
  int64_t default_ttl_ms = 0;       // UpsertItem::ttl_ms where an upsert says nothing; 0: items stay
  ForeignVectors foreign_vectors = ForeignVectors::kWarn;
  uint32_t scale_generation = 0;  // generation whose distances bounds of searches mean; 0: each hit's own
  StrictMode strict_mode = {};
  std::vector<ModelWatchStatus> model_watch;  // watch of each generation that was learnt
  uint64_t items_expired = 0;                 // items that expired and were removed since the start; for metrics
  uint32_t active_generation = 0;             // 0: none yet
  uint64_t items = 0;
  std::vector<std::pair<uint32_t, uint64_t>> items_by_generation;
  std::vector<SegmentInfo> segments;
  std::string index_choice;  // reason for the segments' kind, where the settings leave that open
  absl::Status index_error;  // error of background work, which is tried again
  absl::Status write_error;  // reason why no writes are taken until a restart; OK: writes are taken
  std::vector<PayloadIndexStatus> payload_indexes;
  std::vector<std::string> aliases;
  absl::Time created;
  uint64_t sequence = 0;
  uint32_t canary_generation = 0;  // 0: none
  double canary_share = 0;
  // For metrics.
  int64_t payload_index_bytes = 0;
  int64_t mapped_bytes = 0, heap_bytes = 0, builds_total = 0, rebuilds_total = 0, builds_running = 0;
  int64_t segments_unchecked = 0, segments_damaged = 0;
  int64_t carried_rows = 0,
          carried_bytes = 0;  // rows that item adapters carried into files; mapped_bytes includes the bytes
};

enum class GenerationState { kDraft, kRegistered, kValidated, kActive, kRetired };

struct RegisterCall {
  std::string request_id;
  std::string collection;
  std::string manifest_json;
  std::string encoder;  // TorchScript file, or empty
  uint32_t parent = 0;
  // An adapter will lead to older generations: another dimension is allowed, and out of reach until it is put.
  bool expects_adapter = false;
  // Instead of adding one: this draft becomes a generation like others.
  uint32_t draft = 0;
  // The new one is a draft (of a training; not on the wire).
  bool as_draft = false;
};

struct GenerationStatus {
  uint32_t generation = 0;
  GenerationState state = GenerationState::kRegistered;
  uint32_t parent = 0;
  Space space;
  int compatible_prefix = 0;  // leading numbers that compare with older generations; 0: all
  std::string method;
  bool has_encoder = false;
  std::vector<uint32_t> reach;
  uint64_t items = 0;
  absl::Time registered;
  std::optional<absl::Time> activated;
  std::string manifest_json;
  std::shared_ptr<const ValidationReport> validation;  // the last one; nullptr: none
  std::string validation_outdated;                     // reason why the validation does not count any more; or empty
};

// Another generation is to serve: the one that served before (a rollback), or the one named.
struct SwitchCall {
  std::string request_id;
  std::string collection;
  bool force = false;
  std::string reason;
  std::optional<uint32_t> expect_active;
  std::string operator_name = {};  // name of the operator, or empty
};

struct ActivateCall : SwitchCall {
  uint32_t generation = 0;
};

struct ActivateAnswer {
  GenerationStatus generation;
  uint32_t previous_generation = 0;
  uint64_t out_of_reach = 0;
};

// An activation, a rollback, a retirement or a canary that took place.
struct AuditEntry {
  absl::Time time;
  bool rollback = false;
  uint32_t generation = 0, previous_generation = 0;  // 0: none
  bool forced = false;
  std::string reason;
  uint64_t out_of_reach = 0;
  std::string request_id;
  bool retired = false;    // `generation` was retired while `previous_generation` served
  bool validated = false;  // a valid passing validation stood behind it
  std::optional<double>
      canary_share;  // instead: `generation` was given this share beside `previous_generation`; 0: it ended
  std::string operator_name = {};
};

struct PutAdapterCall {
  std::string request_id;
  std::string collection;
  uint32_t from = 0, to = 0;  // generations: from > to carries queries, from < to items
  std::string file;           // models/adapter_file.h
};

struct DropAdapterCall {
  std::string request_id;
  std::string collection;
  uint32_t from = 0, to = 0;
  bool force = false;  // drops although items get out of the active generation's reach
};

struct AdapterStatus {
  uint32_t from = 0, to = 0;
  uint64_t version = 0;  // counts the adapters ever put into the collection
  AdapterDirection direction = AdapterDirection::kItem;
  AdapterKind kind = AdapterKind::kAffine;
  int input_dimension = 0, output_dimension = 0, width = 0;
  std::string loss;
  int64_t pairs = 0;          // pairs that the adapter was fitted from
  double held_out_error = 0;  // mean distance to the other model's embedding of the same item
  bool matched = false;       // The pairs are rows of other items that were matched.
  int64_t bytes = 0;          // size of the file
  uint32_t crc32c = 0;        // checksum of the file
  absl::Time put;
};

struct StartBackfillCall {
  std::string request_id;
  std::string collection;
  std::string failure_head;      // models/failure_head_file.h; empty: the order comes from the neighbourhoods alone
  uint32_t head_generation = 0;  // generation that the head is for; 0: the active one's parent, or predecessor
  // Items a second that the server itself embeds of those whose input is stored, worst first; 0: none. Absent: as
  // this generation's backfill was started before, p99_ms_max with it; else 0.
  std::optional<double> embed_rate = {};
  // Of the collection's searches, in milliseconds: the rate is halved while their 99th percentile lies above. 0: never.
  double p99_ms_max = 0;
  uint32_t generation = 0;  // generation that embeds; 0: the active one; a newer one may before it serves
};

// An item that the server could not embed.
struct AsideItem {
  ItemId id;
  uint64_t internal_id = 0;
  std::string reason;
};

enum class BackfillState {
  kNone,      // never started
  kOrdering,  // finding out which items are worst
  kRunning,   // items can be leased
  kPaused,
  kStopped,  // another generation is active
  kDone,     // no item is left that the generation can embed
  kFailed,   // ordering failed; start it again
};

struct BackfillStatus {
  BackfillState state = BackfillState::kNone;
  uint32_t generation = 0;       // generation that embeds the items anew
  uint32_t head_generation = 0;  // generation whose items a failure head orders; 0: none
  uint64_t items_done = 0;       // backfill.h, CountsOf
  uint64_t items_left = 0;
  uint64_t items_leased = 0;
  uint64_t items_ordered = 0;  // ordered part of items_left, while ordering
  std::optional<absl::Time> started;
  absl::Status error;            // error of kFailed, or why the server itself embeds nothing
  double embed_rate = 0;         // rate that the start asked for
  bool ahead = false;            // The generation does not serve yet.
  double items_per_second = 0;   // items a second in the last minute, by anybody
  uint64_t items_aside = 0;      // items that the server could not embed
  std::vector<AsideItem> aside;  // some of these items
  uint64_t embedded_total = 0;   // items embedded anew since the server started, by workers and by itself; for metrics
};

struct EstimateCall {
  std::string collection;
  uint32_t generation = 0;  // 0: the active one
  int64_t trial_max = 0;    // stored inputs that the encoder embeds for a trial, at most kTrialInputsMax
};
inline constexpr int64_t kTrialInputsMax = 256;

// What embedding a gallery anew would take.
struct EmbeddingEstimate {
  uint32_t generation = 0;
  uint64_t items = 0;            // items that the generation has not embedded
  int64_t sampled = 0;           // items looked at
  int64_t with_input = 0;        // items looked at that have a stored input
  int64_t texts = 0;             // inputs looked at that are texts
  double characters_a_text = 0;  // mean number
  double bytes_an_input = 0;     // mean size
  int64_t trial_inputs = 0;      // inputs that the trial embedded
  double items_per_second = 0;   // rate of the trial; 0: none
  absl::Status trial_error = {};
};

struct LeaseCall {
  std::string collection;
  int64_t items_max = 0;
  absl::Duration timeout;        // time until an item that is not embedded anew is leased to somebody else
  std::string finished_token;    // lease that is finished: its other items go back at once
  std::string renew_token = {};  // lease that ends `timeout` from now instead; nothing is leased then
};

struct LeasedItem {
  ItemId id;
  uint64_t sequence = 0;  // value for UpsertItem::expected_sequence
  uint32_t generation = 0;
  double uncertainty = 0;  // server/engine/backfill/item_order.h
  bool has_input = false;
  bool found_lately = false;  // found by a search: leased before all others, with uncertainty 0
};

struct LeaseAnswer {
  BackfillState state = BackfillState::kNone;  // items are leased in kRunning only
  uint32_t generation = 0;                     // generation to embed by
  std::string token;                           // empty without items
  absl::Time expires;
  std::vector<LeasedItem> items;
};

// What repeated live searches of a collection showed (engine.h, GetLiveRecall).
struct LiveRecall {
  uint32_t query_generation = 0, item_generation = 0;
  std::string segment;               // kind, of the rows that the exact search found
  std::string filter;                // "none", "broad" or "narrow" (under a tenth of the items pass)
  uint64_t expected = 0, found = 0;  // hits of the exact searches; and those among them that the live ones had
  double recent_expected = 0, recent_found = 0;  // the same of about the last hundred samples
};

// How a figure of the hits is spread, for one pair of generations.
struct LiveSpread {
  static constexpr double kQuantiles[] = {0.1, 0.5, 0.9};
  uint32_t query_generation = 0, item_generation = 0;
  std::string quantity;  // "distance", "uncertainty"
  uint64_t count = 0;
  double sum = 0;
  std::vector<double> quantiles;  // quantiles of the last 512 values
  // Largest distance of the distribution functions (0 .. 1) of these and those of the query generation's own hits; for
  // its own, of these and those of the generation that served before. Not there before either has 50 values.
  std::optional<double> drift;
};

// Searches of a pair of generations that found too little walk broader: by this factor where they name no breadth.
struct LiveBreadth {
  uint32_t query_generation = 0, item_generation = 0;
  double factor = 1;
};

struct LiveRecallStatus {
  uint64_t samples = 0, failures = 0;  // searches repeated, and those that could not be
  std::vector<LiveRecall> recall;
  std::vector<LiveSpread> spreads;
  std::vector<LiveBreadth> breadths;  // factors above 1
};

// Of all collections.
struct LiveSamplerStatus {
  uint64_t repeated_total = 0;
  uint64_t dropped_total = 0;  // chosen, but too many were waiting
  double seconds_total = 0;    // processor time of the repetitions
};

}  // namespace lightcone::server
