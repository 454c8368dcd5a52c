#include "server/engine/training/fit_calls.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "base/child_process.h"
#include "base/files.h"
#include "base/npy.h"
#include "base/number_text.h"
#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/raw_input.h"
#include "server/engine/collection/record_json.h"
#include "server/engine/embed/make_worker.h"
#include "server/engine/jobs/job_calls.h"
#include "server/engine/services/operator_transaction.h"
#include "server/engine/training/adapter_pairs.h"
#include "spdlog/spdlog.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kChoosingMap = "auto";  // every map is fitted, and the best on held-out pairs taken
constexpr int64_t kPairsDefault = 50'000, kPairsLimit = 1'000'000;
constexpr int64_t kPairBytesMax = int64_t{1} << 31;  // size of all vectors in this process
constexpr int64_t kEmbedLimit = 100'000;
constexpr int kFitDimensionMax = 4'096;  // largest dimension that fitting takes (docs/internals/adapters.md)
constexpr size_t kLossBytesMax = 64;
constexpr int64_t kSampleDefault = 2'000, kSampleLimit = 100'000;
constexpr uint64_t kSampledBetweenChecks = 4'096;

constexpr auto kFitFields = [](auto& f, auto& call) {
  f.Field("from", call.from);
  f.Field("to", call.to);
  f.Field("map", call.map);
  f.Field("loss", call.loss);
  f.Field("width", call.width);
  f.Field("pairs_max", call.pairs_max);
  f.Field("embed_max", call.embed_max);
  f.Field("label_field", call.label_field);
  f.Field("seed", call.seed);
};

std::string Encode(const FitAdapterCall& call) { return EncodeFields(call, kFitFields); }

absl::StatusOr<FitAdapterCall> DecodeFit(const std::string& text) {
  return DecodeFields<FitAdapterCall>("arguments of fitting", text, kFitFields);
}

// Which maps have what `width` and `loss` say, as `lightcone adapt` has it.
bool HasWidth(std::string_view map) { return map != "procrustes" && map != "affine" && map != kChoosingMap; }
bool HasLoss(std::string_view map) { return map != "procrustes" && map != "kernel"; }

// What the call leaves open, filled in; INVALID_ARGUMENT for what cannot be.
absl::StatusOr<FitAdapterCall> Completed(FitAdapterCall call) {
  if (call.map.empty()) call.map = kChoosingMap;
  if (call.loss.empty()) call.loss = "auto";
  if (call.pairs_max == 0) call.pairs_max = kPairsDefault;
  if (call.map != kChoosingMap && !ParseAdapterKind(call.map).ok()) {
    return InvalidField("map", StrCat("'", call.map, "'"),
                        "auto, procrustes, affine, low-rank-affine, residual-mlp, kernel");
  }
  const bool words = std::all_of(call.loss.begin(), call.loss.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '*' || c == '.';
  });
  if (!words || call.loss.size() > kLossBytesMax) {
    return InvalidField("loss", StrCat("'", call.loss, "'"),
                        "auto, or a sum of reg, rel, sup, contra, as in reg+0.5*sup");
  }
  if (call.width < 0 || call.width > kAdapterWidthMax) {
    return InvalidField("width", StrCat(call.width), StrCat("0 (the map's usual one) .. ", kAdapterWidthMax));
  }
  if (call.width > 0 && !HasWidth(call.map)) {
    return InvalidField("width", StrCat(call.width),
                        StrCat("0 with map ", call.map, ": only residual-mlp, kernel and low-rank-affine have one"));
  }
  if (call.loss != "auto" && !HasLoss(call.map)) {
    return InvalidField("loss", StrCat("'", call.loss, "'"),
                        StrCat("auto with map ", call.map, ": a closed form has no loss"));
  }
  if (call.pairs_max < 0 || call.pairs_max > kPairsLimit) {
    return InvalidField("pairs_max", StrCat(call.pairs_max), StrCat("0 (", kPairsDefault, ") .. ", kPairsLimit));
  }
  if (call.embed_max < 0 || call.embed_max > kEmbedLimit) {
    return InvalidField("embed_max", StrCat(call.embed_max), StrCat("0 .. ", kEmbedLimit));
  }
  if (!call.label_field.empty()) {
    LC_RETURN_IF_ERROR(
        CheckPayloadFields(std::vector<PayloadField>{{call.label_field, PayloadType::kKeyword}}, "label_field"));
  }
  return call;
}

absl::Status CheckSides(const CollectionState& state, const FitAdapterCall& call) {
  if (call.from == 0) return InvalidField("from_generation", "0", "the number of a generation");
  if (call.to == 0) return InvalidField("to_generation", "0", "the number of a generation");
  if (call.from == call.to)
    return InvalidField("to_generation", StrCat(call.to), "another generation than from_generation");
  LC_ASSIGN_OR_RETURN(const GenerationRecord* from, state.Resolve(call.from));
  LC_ASSIGN_OR_RETURN(const GenerationRecord* to, state.Resolve(call.to));
  if (state.record.metric != Metric::kLorentz && state.record.metric != Metric::kCosine) {
    return FailedPrecondition(StrCat("collection '", state.record.name, "' measures by ",
                                     MetricName(state.record.metric), "; adapters are fitted for lorentz and cosine"));
  }
  for (const GenerationRecord* side : {from, to}) {
    if (side->space.dimension <= kFitDimensionMax) continue;
    return FailedPrecondition(StrCat("generation ", side->generation, " of collection '", state.record.name, "' has ",
                                     side->space.dimension, " numbers; adapters are fitted up to ", kFitDimensionMax));
  }
  const int64_t pair_bytes = (from->space.dimension + to->space.dimension) * static_cast<int64_t>(sizeof(float));
  if (std::max(call.pairs_max, call.embed_max) * pair_bytes > kPairBytesMax) {
    return InvalidField("pairs_max", StrCat(call.pairs_max),
                        StrCat("0 .. ", kPairBytesMax / pair_bytes, " of ", pair_bytes, " bytes each"));
  }
  const GenerationRecord& newer = call.from > call.to ? *from : *to;
  if (call.embed_max > 0 && !newer.has_encoder) {
    return FailedPrecondition(
        StrCat("generation ", newer.generation, " of collection '", state.record.name,
               "' has no encoder here to embed stored inputs with; leave embed_max at 0 and upsert "
               "embeddings of the items that SampleItems names"));
  }
  return absl::OkStatus();
}

std::string NpyOf(const std::vector<float>& values, int64_t rows) {
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return EncodeNpy(NpyType::kFloat32, {rows, static_cast<int64_t>(values.size()) / rows}, bytes);
}

std::string NpyOf(const std::vector<int64_t>& values) {
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
  return EncodeNpy(NpyType::kInt64, {std::ssize(values)}, bytes);
}

absl::Status WritePairs(const std::string& folder, const AdapterPairs& pairs) {
  LC_RETURN_IF_ERROR(WriteFileAtomically(folder + "/old.npy", NpyOf(pairs.older, pairs.count)));
  LC_RETURN_IF_ERROR(WriteFileAtomically(folder + "/new.npy", NpyOf(pairs.newer, pairs.count)));
  LC_RETURN_IF_ERROR(WriteFileAtomically(folder + "/items.npy", NpyOf(pairs.items)));
  if (pairs.labels.empty()) return absl::OkStatus();
  return WriteFileAtomically(folder + "/labels.npy", NpyOf(pairs.labels));
}

// What is fitted: the two generations as they were when the job began.
struct FitSides {
  const CollectionState& state;
  const GenerationRecord& older;
  const GenerationRecord& newer;
  const FitAdapterCall& call;
};

absl::Status NoPairs(const FitSides& sides, const AdapterPairs& pairs) {
  return FailedPrecondition(
      StrCat("no item of collection '", sides.state.record.name, "' is embedded by generations ",
             sides.older.generation, " and ", sides.newer.generation, " both",
             pairs.unlabelled > 0 ? StrCat(" and has a label in '", sides.call.label_field, "'") : "",
             ": upsert embeddings of generation ", sides.newer.generation,
             " with same_content for some, 2,000 are a good number; SampleItems names them"));
}

std::vector<std::string> CommandLine(const std::string& program, const std::string& folder, const FitSides& sides,
                                     const AdapterPairs& pairs) {
  const FitAdapterCall& call = sides.call;
  std::vector<std::string> words = {program, "adapt"};
  const auto add = [&words](const char* flag, std::string value) {
    words.emplace_back(flag);
    words.push_back(std::move(value));
  };
  add("--old-embeddings", folder + "/old.npy");
  add("--new-embeddings", folder + "/new.npy");
  add("--items", folder + "/items.npy");
  if (!pairs.labels.empty()) add("--labels", folder + "/labels.npy");
  add("--metric", std::string(MetricName(sides.state.record.metric)));
  add("--curvature", NumberText(sides.state.record.curvature));
  add("--old-clip", NumberText(sides.older.space.clip_radius));
  add("--new-clip", NumberText(sides.newer.space.clip_radius));
  add("--direction", std::string(AdapterDirectionName(DirectionOf(call.from, call.to))));
  add("--map", call.map);
  // Jobs that an older server began may name what the map does not have, and the program refuses it.
  if (HasLoss(call.map)) add("--loss", call.loss);
  if (call.width > 0 && HasWidth(call.map))
    add(call.map == "low-rank-affine" ? "--rank" : "--width", StrCat(call.width));
  add("--test-share", "0");
  add("--seed", StrCat(call.seed));
  add("--out", folder + "/adapter");
  return words;
}

// The adapter's file. `folder` is made, and gone afterwards.
absl::StatusOr<std::string> FitBeside(const EngineOptions& options, const std::string& folder, const FitSides& sides,
                                      const AdapterPairs& pairs, const std::function<bool()>& gone) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  LC_RETURN_IF_ERROR(MakeFolders(folder));
  const absl::Cleanup clean = [&] { fs::remove_all(folder, ignored); };
  LC_RETURN_IF_ERROR(WritePairs(folder, pairs));
  const std::string threads = StrCat(options.helper_threads), said = folder + "/said.txt";
  ChildProgram program;
  program.words = CommandLine(options.helper_program, folder, sides, pairs);
  program.environment = {"OMP_NUM_THREADS=" + threads, "OPENBLAS_NUM_THREADS=" + threads, "MKL_NUM_THREADS=" + threads};
  program.output = said;
  program.niceness = options.helper_niceness;
  program.memory_bytes_max = options.helper_memory_bytes_max;
  LC_ASSIGN_OR_RETURN(const int code, RunChild(program, gone));
  if (code > 128) {
    return Internal(StrCat("fitting was ended by signal ", code - 128,
                           " (9 is what a lack of memory looks like): ", LastWords(said)));
  }
  if (code != 0) return FailedPrecondition(StrCat("fitting ", pairs.count, " pairs: ", LastWords(said)));
  return ReadFile(folder + "/adapter");
}

// The place of the first pair that was held out; 0 where none was.
uint64_t HeldOutFrom(const AdapterFit& fit, const std::vector<int64_t>& items) {
  std::vector<uint64_t> places;
  for (const int64_t item : items) places.push_back(PlaceInFit(fit.seed, static_cast<uint64_t>(item)));
  std::sort(places.begin(), places.end());
  const auto fitted = static_cast<size_t>(fit.pairs);
  return fitted < places.size() ? places[fitted] : 0;
}

// The program sees vectors only. What is no adapter is refused where it is put.
absl::StatusOr<std::string> WithOrigin(std::string file, const GenerationRecord& from, const GenerationRecord& to,
                                       const AdapterPairs& pairs) {
  absl::StatusOr<AdapterFile> adapter = ParseAdapter(file);
  if (!adapter.ok()) return file;
  adapter->fit.held_out_from = HeldOutFrom(adapter->fit, pairs.items);
  adapter->from_crc32c = EncoderCrc32cOf(from.manifest_json);
  adapter->to_crc32c = EncoderCrc32cOf(to.manifest_json);
  return EncodeAdapter(*adapter);
}

absl::StatusOr<EmbeddedInputs> EmbedForFit(InputsEncoder& encoder, const GenerationRecord& generation,
                                           const std::vector<std::string>& inputs, const std::function<bool()>& gone) {
  LC_ASSIGN_OR_RETURN(EmbeddedInputs vectors, encoder.Embed(inputs, gone));
  for (auto& vector : vectors) {
    if (!vector.ok()) continue;
    absl::Status fits = CheckVector(generation.space, *vector, "input embedded");
    if (!fits.ok()) vector = std::move(fits);
  }
  return vectors;
}

// The embeddings are paid for: other fits, validations and searches have them, too. The fit needs none of that: what
// cannot be written now is left out. CANCELLED.
absl::StatusOr<int64_t> KeepEmbeddings(WriteCalls& writes, const Served& served, const GenerationRecord& generation,
                                       std::vector<EmbeddedItem> items, const std::function<bool()>& gone) {
  UpsertBatch batch;
  batch.generation = generation.generation;
  batch.same_content = true;
  batch.durability = Durability::kProcess;  // What a power loss takes back is embedded once more.
  for (EmbeddedItem& item : items) {
    UpsertItem& to = batch.items.emplace_back();
    to.id = std::move(item.id);
    to.content = std::move(item.vector);
    to.expected_sequence = item.sequence;
  }
  CallContext context;
  context.cancelled = gone;
  const auto count = std::ssize(batch.items);
  const absl::StatusOr<WriteResult> written = writes.WriteVectors(served, generation, std::move(batch), context);
  if (written.ok()) return count - std::ssize(written->outdated);
  if (absl::IsCancelled(written.status())) return written.status();
  spdlog::warn("collection '{}': {} embeddings of a fit are not kept: {}", served.collection->name(), count,
               MessageOf(written.status()));
  return 0;
}

}  // namespace

absl::StatusOr<std::string> FitCalls::Fit(const FitAdapterCall& asked) {
  LC_ASSIGN_OR_RETURN(const FitAdapterCall call, Completed(asked));
  if (context_.options.helper_program.empty()) {
    return FailedPrecondition(
        "this server has no program beside it that fits adapters: run `lightcone adapt` and PutAdapter");
  }
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  Collection& collection = *served->collection;
  const std::string fingerprint = StrCat(collection.number(), "|", DigestOf(Encode(call)));
  LC_ASSIGN_OR_RETURN(OperatorTransaction change,
                      OperatorTransaction::Begin(context_, collection, {call.request_id, "FitAdapter", fingerprint}));
  if (change.earlier() != nullptr) return change.earlier()->job;
  LC_RETURN_IF_ERROR(CheckSides(change.before(), call));
  return BeginJob(*context_.jobs, change, kJob, std::max(call.from, call.to), Encode(call));
}

absl::StatusOr<std::string> FitCalls::RunJob(const JobRun& run) {
  LC_ASSIGN_OR_RETURN(FitAdapterCall call, DecodeFit(run.job.arguments_json));
  LC_ASSIGN_OR_RETURN(const ServedPtr served,
                      context_.catalog.FindByNumber(run.job.collection_number, run.job.collection));
  Collection& collection = *served->collection;
  const auto state = collection.state();
  LC_RETURN_IF_ERROR(CheckSides(*state, call));
  const FitSides sides{*state, *state->Find(std::min(call.from, call.to)), *state->Find(std::max(call.from, call.to)),
                       call};
  const auto gone = [&] { return run.cancelled() || collection.dropped(); };
  PairsRun gather{gone, run.report, {}};
  std::unique_ptr<InputsEncoder> encoder;
  if (sides.newer.has_encoder && call.embed_max > 0) {
    LC_ASSIGN_OR_RETURN(encoder, MakeInputsEncoder(context_, collection, sides.newer, "fit"));
    gather.embed = [&](const std::vector<std::string>& inputs) {
      return EmbedForFit(*encoder, sides.newer, inputs, gone);
    };
    gather.keep = [&](std::vector<EmbeddedItem> items) {
      return KeepEmbeddings(writes_, *served, sides.newer, std::move(items), gone);
    };
  }
  const PairsWanted wanted{.older = sides.older.generation,
                           .newer = sides.newer.generation,
                           .pairs_max = call.pairs_max,
                           .embed_max = call.embed_max,
                           .label_field = call.label_field,
                           .seed = call.seed};
  LC_ASSIGN_OR_RETURN(const AdapterPairs pairs, GatherPairs(collection, wanted, gather));
  encoder.reset();
  if (pairs.count == 0) return NoPairs(sides, pairs);
  run.report(static_cast<uint64_t>(pairs.count), static_cast<uint64_t>(pairs.count), "fitting");
  LC_ASSIGN_OR_RETURN(
      std::string file,
      FitBeside(context_.options, StrCat(context_.folders.Jobs(), "/", run.job.number), sides, pairs, gone));
  LC_ASSIGN_OR_RETURN(file, WithOrigin(std::move(file), *state->Find(call.from), *state->Find(call.to), pairs));
  const absl::StatusOr<AdapterFile> fitted = ParseAdapter(file);
  const std::string map = fitted.ok() ? std::string(AdapterKindName(fitted->spec.kind)) : call.map;
  const std::string choice = fitted.ok() ? ChoiceText(*fitted) : "";
  if (gone()) return MakeStatus(absl::StatusCode::kCancelled, "the adapter is fitted, and not wanted any more");
  LC_ASSIGN_OR_RETURN(const AdapterStatus put, adapters_.Put({.request_id = "",
                                                              .collection = state->record.name,
                                                              .from = call.from,
                                                              .to = call.to,
                                                              .file = std::move(file)}));
  return Dump({{"version", put.version},
               {"pairs", pairs.count},
               {"embedded", pairs.embedded},
               {"kept", pairs.kept},
               {"undecodable", pairs.undecodable},
               {"unlabelled", pairs.unlabelled},
               {"map", map},
               {"choice", choice},
               {"loss", put.loss},
               {"held_out_error", put.held_out_error}});
}

absl::StatusOr<std::vector<SampledItem>> FitCalls::SampleItems(const SampleItemsCall& call,
                                                               const CallContext& context) const {
  if (call.generation == 0) return InvalidField("generation", "0", "the number of a generation");
  if (call.items < 0 || call.items > kSampleLimit) {
    return InvalidField("items", StrCat(call.items), StrCat("0 (", kSampleDefault, ") .. ", kSampleLimit));
  }
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  const Collection& collection = *served->collection;
  LC_RETURN_IF_ERROR(collection.state()->Resolve(call.generation).status());
  Draw<SampledItem> draw(call.items == 0 ? kSampleDefault : call.items, call.seed);
  const keys::Range range = keys::ItemRange(collection.number());
  const auto items = context_.store->Scan(Table::kItems, range.begin, range.end);
  absl::Status status;
  uint64_t seen = 0;
  for (; items->Valid() && status.ok(); items->Next()) {
    if (seen++ % kSampledBetweenChecks == 0) LC_RETURN_IF_ERROR(CheckAlive(context, "sampling"));
    LC_ASSIGN_OR_RETURN(const ItemRecord item, DecodeItem(items->value()));
    if (IsExpired(item, collection.expiry().NowMs())) continue;
    // The newest before it; an item that it, or a newer one, has embedded is none to ask for.
    const auto after = std::lower_bound(item.generations.begin(), item.generations.end(), call.generation);
    if (after == item.generations.begin() || after != item.generations.end()) continue;
    draw.Offer(item.internal_id, [&] {
      SampledItem one;
      auto id = keys::ParseItem(items->key());
      status.Update(id.status());
      if (id.ok()) one.id = *std::move(id);
      one.sequence = item.sequence;
      one.generation = *std::prev(after);
      one.has_input = item.has_input;
      return one;
    });
  }
  LC_RETURN_IF_ERROR(status);
  LC_RETURN_IF_ERROR(items->status());
  return draw.Take();
}

}  // namespace lightcone::server
