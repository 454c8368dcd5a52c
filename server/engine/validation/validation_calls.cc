#include "server/engine/validation/validation_calls.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "server/engine/collection/checks.h"
#include "server/engine/collection/record_json.h"
#include "server/engine/embed/embed_inputs.h"
#include "server/engine/jobs/job_calls.h"
#include "server/engine/services/operator_transaction.h"
#include "server/engine/validation/probe_record.h"
#include "server/engine/validation/validation.h"
#include "store/keys.h"

namespace lightcone::server {
namespace {

constexpr size_t kEmbedInputs = 64;  // a call of the encoder

struct Arguments {
  double tolerance = kToleranceDefault;
  uint32_t reference_generation = 0;
  bool calibrate = true;
  std::string measure = {};  // as the report keeps it
};

constexpr auto kArgumentFields = [](auto& f, auto& a) {
  f.Field("tolerance", a.tolerance);
  f.Field("reference_generation", a.reference_generation);
  f.Optional("calibrate", a.calibrate, true);
  f.Optional("measure", a.measure, std::string());
};

absl::StatusOr<std::vector<ProbeSet>> ReadProbeSets(const Store& store, uint32_t collection,
                                                    const CollectionRecord& record) {
  std::vector<ProbeSet> sets;
  for (const auto& [name, put_us] : record.probe_sets) {
    const std::string what = StrCat("probe set '", name, "'");
    const auto head = store.Get(Table::kProbes, keys::ProbeHead(collection, name));
    if (absl::IsNotFound(head.status())) return Aborted(StrCat(what, " was dropped meanwhile: validate again"));
    LC_RETURN_IF_ERROR(head.status());
    LC_ASSIGN_OR_RETURN(const ProbeSetStatus status, DecodeProbeHead(*head));
    const auto body = store.Get(Table::kProbes, keys::ProbeBody(collection, name));
    if (absl::IsNotFound(body.status())) return Aborted(StrCat(what, " was dropped meanwhile: validate again"));
    LC_RETURN_IF_ERROR(body.status());
    absl::StatusOr<std::vector<Probe>> probes = DecodeProbes(*body);
    if (!probes.ok()) return Annotate(probes.status(), what);
    sets.push_back({status.label_field, *std::move(probes)});
  }
  return sets;
}

absl::StatusOr<ProbeVectors> VectorsOf(const Context& engine, const Collection& collection,
                                       const GenerationRecord& generation, const std::vector<ProbeSet>& sets,
                                       const JobRun& run) {
  ProbeVectors vectors;
  std::vector<const RawInput*> inputs;
  std::vector<size_t> places;
  for (const ProbeSet& set : sets) {
    for (const Probe& probe : set.probes) {
      std::optional<std::vector<float>>& to = vectors.emplace_back();
      for (const auto& [g, z] : probe.vectors) {
        if (g == generation.generation) to = z;
      }
      if (to || !probe.input || !generation.has_encoder) continue;
      inputs.push_back(&*probe.input);
      places.push_back(vectors.size() - 1);
    }
  }
  CallContext context;
  context.cancelled = run.cancelled;
  for (size_t begin = 0; begin < inputs.size(); begin += kEmbedInputs) {
    const size_t count = std::min(kEmbedInputs, inputs.size() - begin);
    const auto field_of = [&](size_t i) { return StrCat("probe ", places[begin + i], ", input"); };
    const std::span<const RawInput* const> some(&inputs[begin], count);
    absl::StatusOr<EmbeddedInputs> embedded =
        EmbedInputs(engine, collection, generation, some, EmbedRole::kQuery, field_of, context);
    // Encoders stop before jobs do: what they say then is no failure of the validation.
    if (run.cancelled()) return MakeStatus(absl::StatusCode::kCancelled, "the validation was stopped");
    LC_ASSIGN_OR_RETURN(EmbeddedInputs made, std::move(embedded));
    for (size_t i = 0; i < count; ++i) {
      const absl::StatusCode code = made[i].status().code();
      if (code == absl::StatusCode::kCancelled || code == absl::StatusCode::kDeadlineExceeded ||
          code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kUnavailable ||
          code == absl::StatusCode::kFailedPrecondition) {
        return Annotate(made[i].status(), "the probes' inputs");
      }
      // An input that no encoder can decode counts for nobody; one that only this encoder makes no vector of, against
      // it.
      vectors[places[begin + i]] = made[i].ok() ? *std::move(made[i]) : std::vector<float>();
    }
  }
  return vectors;
}

// Takes over what the validation before could measure, and this one could not any more.
void KeepRelevance(const ValidationReport& before, ValidationReport* report) {
  if (!report->new_self) report->new_relevance = before.new_relevance;
  report->kept_relevance = before.kept_relevance;
  for (const PairReport& pair : before.pairs) {
    if (pair.old_relevance) report->kept_relevance.insert_or_assign(pair.item_generation, *pair.old_relevance);
  }
  for (const PairReport& pair : report->pairs) {
    if (!pair.replaced) report->kept_relevance.erase(pair.item_generation);
  }
}

absl::Status KeepReport(const Context& engine, Collection& collection, uint32_t generation, ValidationReport report) {
  LC_ASSIGN_OR_RETURN(OperatorTransaction change, OperatorTransaction::Begin(engine, collection, {}));
  LC_RETURN_IF_ERROR(change.before().Resolve(generation).status());
  const auto& before = change.records().generation(generation).validation;
  if (before != nullptr) KeepRelevance(*before, &report);
  change.records().generation(generation).validation = std::make_shared<const ValidationReport>(std::move(report));
  return change.Commit();
}

}  // namespace

absl::StatusOr<std::string> ValidationCalls::Validate(const ValidateCall& call) {
  const Arguments arguments{call.tolerance.value_or(kToleranceDefault), call.reference_generation, call.calibrate,
                            ParsableText(call.measure)};
  if (!(arguments.tolerance >= 0 && arguments.tolerance <= 1)) {
    return InvalidField("tolerance", StrCat(arguments.tolerance), "0 .. 1");
  }
  if (call.generation == 0) return InvalidField("generation", "0", "the number of a generation");
  LC_RETURN_IF_ERROR(CheckRequestId(call.request_id));
  LC_ASSIGN_OR_RETURN(const ServedPtr served, context_.catalog.Find(call.collection));
  Collection& collection = *served->collection;
  const std::string encoded = EncodeFields(arguments, kArgumentFields);
  const std::string fingerprint = StrCat(collection.number(), "|", call.generation, "|", DigestOf(encoded));
  LC_ASSIGN_OR_RETURN(
      OperatorTransaction change,
      OperatorTransaction::Begin(context_, collection, {call.request_id, "ValidateGeneration", fingerprint}));
  if (change.earlier() != nullptr) return change.earlier()->job;
  const CollectionState& state = change.before();
  LC_RETURN_IF_ERROR(state.Resolve(call.generation).status());
  if (call.reference_generation != 0) {
    LC_RETURN_IF_ERROR(Annotate(state.Resolve(call.reference_generation).status(), "reference_generation"));
  }
  if (state.record.probe_sets.empty()) {
    return FailedPrecondition(StrCat("collection '", state.record.name, "' has no probe set to validate by; put one"));
  }
  return BeginJob(*context_.jobs, change, kJob, call.generation, encoded);
}

absl::StatusOr<std::string> ValidationCalls::RunJob(const JobRun& run) {
  LC_ASSIGN_OR_RETURN(const Arguments arguments,
                      DecodeFields<Arguments>("validation's arguments", run.job.arguments_json, kArgumentFields));
  LC_ASSIGN_OR_RETURN(const ServedPtr served,
                      context_.catalog.FindByNumber(run.job.collection_number, run.job.collection));
  Collection& collection = *served->collection;
  ValidationInput input;
  input.collection = &collection;
  input.state = collection.state();
  input.generation = run.job.generation;
  input.tolerance = arguments.tolerance;
  input.reference_generation = arguments.reference_generation;
  input.calibrate = arguments.calibrate;
  LC_ASSIGN_OR_RETURN(input.measure, ParseGateMeasure(arguments.measure));
  LC_ASSIGN_OR_RETURN(const std::vector<ProbeSet> sets,
                      ReadProbeSets(*context_.store, collection.number(), input.state->record));
  input.sets = &sets;
  input.vectors = [&](const GenerationRecord& generation) {
    return VectorsOf(context_, collection, generation, sets, run);
  };
  uint64_t steps = 0;
  const RankingRun ranking{[&] { return run.cancelled() || collection.dropped(); },
                           [&](std::string_view step) { run.report(steps++, 0, step); }};
  LC_ASSIGN_OR_RETURN(ValidationReport report, RunValidation(input, ranking));
  std::string result = Encode(report);
  LC_RETURN_IF_ERROR(KeepReport(context_, collection, run.job.generation, std::move(report)));
  return result;
}

}  // namespace lightcone::server
