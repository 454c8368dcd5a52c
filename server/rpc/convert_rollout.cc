// Probe sets and jobs, wire <-> engine.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "nlohmann/json.hpp"
#include "server/rpc/convert.h"
#include "server/rpc/error.h"

namespace lightcone::server {
namespace {

v1::JobState StateOf(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return v1::JOB_STATE_QUEUED;
    case JobState::kRunning:
      return v1::JOB_STATE_RUNNING;
    case JobState::kSucceeded:
      return v1::JOB_STATE_SUCCEEDED;
    case JobState::kFailed:
      return v1::JOB_STATE_FAILED;
    case JobState::kCancelled:
      return v1::JOB_STATE_CANCELLED;
  }
  return v1::JOB_STATE_UNSPECIFIED;
}

absl::StatusOr<Probe> ProbeOf(const v1::Probe& probe, size_t i) {
  const std::string field = StrCat("probes[", i, "]");
  Probe out;
  for (int j = 0; j < probe.vectors_size(); ++j) {
    LC_ASSIGN_OR_RETURN(std::vector<float> z,
                        FromWire(probe.vectors(j).vector(), [&] { return StrCat(field, ".vectors[", j, "].vector"); }));
    out.vectors.emplace_back(probe.vectors(j).generation(), std::move(z));
  }
  if (probe.has_input()) {
    LC_ASSIGN_OR_RETURN(out.input, FromWire(probe.input(), [&] { return field + ".input"; }));
  }
  for (int j = 0; j < probe.relevant_size(); ++j) {
    LC_ASSIGN_OR_RETURN(out.relevant.emplace_back(),
                        FromWire(probe.relevant(j), [&] { return StrCat(field, ".relevant[", j, "]"); }));
  }
  if (probe.has_label()) {
    LC_ASSIGN_OR_RETURN(out.label, FromWire(probe.label(), field + ".label"));
  }
  if (probe.has_item()) {
    LC_ASSIGN_OR_RETURN(out.item, FromWire(probe.item(), [&] { return field + ".item"; }));
  }
  return out;
}

void ToWire(const Estimate& estimate, v1::Estimate* out) {
  out->set_value(estimate.value);
  out->set_low(estimate.low);
  out->set_high(estimate.high);
  out->set_probes(static_cast<uint64_t>(estimate.samples));
}

void ToWire(const RankingFigures& figures, v1::RankingFigures* out) {
  ToWire(figures.cmc1, out->mutable_cmc1());
  ToWire(figures.cmc5, out->mutable_cmc5());
  ToWire(figures.map, out->mutable_map());
  if (figures.mrr.samples > 0) ToWire(figures.mrr, out->mutable_mrr());
  if (figures.ndcg10.samples > 0) ToWire(figures.ndcg10, out->mutable_ndcg10());
  if (figures.recall10.samples > 0) ToWire(figures.recall10, out->mutable_recall10());
}

v1::ValidationWay WayOf(AdapterMode way) {
  return way == AdapterMode::kQuery  ? v1::VALIDATION_WAY_QUERY_ADAPTER
         : way == AdapterMode::kItem ? v1::VALIDATION_WAY_ITEM_ADAPTER
                                     : v1::VALIDATION_WAY_NONE;
}

v1::ValidationVerdict VerdictOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed:
      return v1::VALIDATION_VERDICT_PASSED;
    case Verdict::kWorse:
      return v1::VALIDATION_VERDICT_WORSE;
    case Verdict::kUncertain:
      return v1::VALIDATION_VERDICT_UNCERTAIN;
    case Verdict::kDips:
      return v1::VALIDATION_VERDICT_DIPS;
    case Verdict::kUnmeasured:
      return v1::VALIDATION_VERDICT_UNMEASURED;
  }
  return v1::VALIDATION_VERDICT_UNSPECIFIED;
}

void ToWire(const std::vector<MixturePoint>& mixture, google::protobuf::RepeatedPtrField<v1::MixturePoint>* out) {
  for (const MixturePoint& point : mixture) {
    v1::MixturePoint* to = out->Add();
    to->set_share(point.share);
    to->set_cmc1(point.cmc1);
    to->set_map(point.map);
  }
}

void ToWire(const CalibrationReport& calibration, v1::WayCalibration* out) {
  out->set_none_because(calibration.none_because);
  if (!calibration.none_because.empty()) return;
  out->set_offset(calibration.map.offset);
  out->set_slope(calibration.map.slope);
  ToWire(calibration.cmc1_gain, out->mutable_cmc1_gain());
  ToWire(calibration.map_gain, out->mutable_map_gain());
  ToWire(calibration.mixture, out->mutable_mixture());
  out->set_dips(calibration.dips);
  out->set_wins(calibration.wins);
}

void ToWire(const WayReport& way, v1::WayValidation* out) {
  out->set_way(way.older ? v1::VALIDATION_WAY_BOTH : WayOf(way.way));
  if (way.older) {
    out->set_older_weight(way.older->weight);
    out->set_conditioned(way.older->conditioned);
    out->set_beside(WayOf(way.way));
  }
  out->set_in_reach(way.in_reach);
  ToWire(way.figures, out->mutable_figures());
  ToWire(way.cmc1_gain, out->mutable_cmc1_gain());
  ToWire(way.map_gain, out->mutable_map_gain());
  ToWire(way.mixture, out->mutable_mixture());
  out->set_dips(way.dips);
  if (way.calibration) ToWire(*way.calibration, out->mutable_calibration());
  if (way.missed) out->set_missed(*way.missed);
  if (way.measure_gain) ToWire(*way.measure_gain, out->mutable_measure_gain());
}

void ToWire(const PairReport& pair, v1::PairValidation* out) {
  out->set_item_generation(pair.item_generation);
  out->set_items(pair.items);
  out->set_verdict(VerdictOf(pair.verdict));
  if (pair.verdict == Verdict::kPassed) out->set_chosen(WayOf(pair.chosen));
  ToWire(pair.old_self, out->mutable_old_self());
  for (const WayReport& way : pair.ways) ToWire(way, out->add_ways());
  for (const WayReport& way : pair.both) ToWire(way, out->add_ways());
  out->set_both_passes(pair.both_pass);
  out->set_every_item(pair.every_item);
  if (pair.reverse) ToWire(*pair.reverse, out->mutable_reverse());
  out->set_common_items(pair.common_items);
  if (pair.p_com_cmc1) out->set_p_com_cmc1(*pair.p_com_cmc1);
  if (pair.p_com_map) out->set_p_com_map(*pair.p_com_map);
  if (pair.p_up_cmc1) out->set_p_up_cmc1(*pair.p_up_cmc1);
  if (pair.p_up_map) out->set_p_up_map(*pair.p_up_map);
  if (pair.p_com_cmc1_interval) ToWire(*pair.p_com_cmc1_interval, out->mutable_p_com_cmc1_interval());
  if (pair.p_com_map_interval) ToWire(*pair.p_com_map_interval, out->mutable_p_com_map_interval());
  if (pair.p_up_cmc1_interval) ToWire(*pair.p_up_cmc1_interval, out->mutable_p_up_cmc1_interval());
  if (pair.p_up_map_interval) ToWire(*pair.p_up_map_interval, out->mutable_p_up_map_interval());
  if (pair.own_cmc1_gain) ToWire(*pair.own_cmc1_gain, out->mutable_own_cmc1_gain());
  if (pair.own_map_gain) ToWire(*pair.own_map_gain, out->mutable_own_map_gain());
  if (pair.own_measure_gain) ToWire(*pair.own_measure_gain, out->mutable_own_measure_gain());
  out->set_judged_share(pair.judged_share);
  if (pair.passes_from_share) out->set_passes_from_share(*pair.passes_from_share);
  out->set_summary(TextOf(pair));
}

}  // namespace

void ToWire(const ValidationReport& report, v1::Validation* out) {
  out->set_passed(report.passed);
  *out->mutable_time() = TimestampOf(report.time);
  out->set_tolerance(report.tolerance);
  out->set_reference_generation(report.reference_generation);
  for (const auto& [name, put_us] : report.probe_sets) out->add_probe_sets(name);
  out->set_probes(report.probes);
  out->set_probes_without(report.probes_without);
  out->set_missing_items(report.missing_items);
  if (report.new_self) ToWire(*report.new_self, out->mutable_new_self());
  for (const PairReport& pair : report.pairs) ToWire(pair, out->add_pairs());
  out->set_measure(ParsableText(report.measure));
  if (const auto share = report.passes_from_share()) out->set_passes_from_share(*share);
}

absl::StatusOr<ValidateCall> FromWire(const v1::ValidateRequest& request) {
  ValidateCall call;
  call.request_id = request.request_id();
  call.collection = request.collection();
  call.generation = request.generation();
  if (request.has_tolerance()) call.tolerance = request.tolerance();
  call.reference_generation = request.reference_generation();
  LC_ASSIGN_OR_RETURN(call.measure, ParseGateMeasure(request.measure()));
  call.calibrate = !request.without_calibration();
  return call;
}

FitAdapterCall FromWire(const v1::FitAdapterRequest& request) {
  FitAdapterCall call;
  call.request_id = request.request_id();
  call.collection = request.collection();
  call.from = request.from_generation();
  call.to = request.to_generation();
  call.map = request.map();
  call.loss = request.loss();
  call.width = static_cast<int>(std::min<uint32_t>(request.width(), INT32_MAX));
  call.pairs_max = request.pairs_max();
  call.embed_max = request.embed_max();
  call.label_field = request.label_field();
  if (request.has_seed()) call.seed = request.seed();
  return call;
}

absl::StatusOr<PutProbesCall> FromWire(const v1::PutProbesRequest& request) {
  PutProbesCall call{request.request_id(), request.collection(), request.name(), request.label_field(), {}};
  for (int i = 0; i < request.probes_size(); ++i) {
    LC_ASSIGN_OR_RETURN(call.probes.emplace_back(), ProbeOf(request.probes(i), static_cast<size_t>(i)));
  }
  return call;
}

void ToWire(const ProbeSetStatus& set, v1::ProbeSetInfo* out) {
  out->set_name(set.name);
  out->set_label_field(set.label_field);
  out->set_probes(set.probes);
  for (const auto& [generation, probes] : set.vectors) {
    v1::ProbeSetInfo::ByGeneration* to = out->add_vectors();
    to->set_generation(generation);
    to->set_probes(probes);
  }
  out->set_inputs(set.inputs);
  out->set_bytes(set.bytes);
  *out->mutable_put() = TimestampOf(set.put);
}

void ToWire(const JobStatus& job, v1::JobInfo* out) {
  out->set_id(job.id);
  out->set_kind(job.kind);
  out->set_collection(job.collection);
  out->set_generation(job.generation);
  out->set_state(StateOf(job.state));
  out->set_done(job.done);
  out->set_total(job.total);
  out->set_step(job.step);
  *out->mutable_created() = TimestampOf(job.created);
  if (job.started) *out->mutable_started() = TimestampOf(*job.started);
  if (job.ended) *out->mutable_ended() = TimestampOf(*job.ended);
  out->set_attempts(job.attempts);
  out->set_result_json(job.result_json);
  if (!job.error.ok()) *out->mutable_error() = ToPartError(job.error);
  out->set_progress_json(job.progress_json);
}

void ToWire(const JobStatus& job, v1::TrainingJob* out) {
  static constexpr std::pair<JobState, const char*> kStates[] = {{JobState::kQueued, "queued"},
                                                                 {JobState::kRunning, "running"},
                                                                 {JobState::kSucceeded, "succeeded"},
                                                                 {JobState::kFailed, "failed"},
                                                                 {JobState::kCancelled, "cancelled"}};
  out->set_id(job.id);
  for (const auto& [state, name] : kStates) {
    if (job.state == state) out->set_state(name);
  }
  ToWire(job, out->mutable_job());
  const auto result = nlohmann::json::parse(job.result_json, nullptr, /*allow_exceptions=*/false);
  if (result.is_object()) out->set_generation(result.value("generation", uint32_t{0}));
}

SetCanaryCall FromWire(const v1::SetCanaryRequest& request) {
  return {request.request_id(), request.collection(), request.generation(),   request.share(),
          request.force(),      request.reason(),     request.operator_name()};
}

namespace {

void ToWire(const CanarySide& side, v1::CanarySide* out) {
  out->set_generation(side.generation);
  out->set_searches(side.searches);
  out->set_failures(side.failures);
  out->set_p50_ms(side.p50_ms);
  out->set_p99_ms(side.p99_ms);
  out->set_nearest_distance(side.nearest_distance);
  out->set_nearest_uncertainty(side.nearest_uncertainty);
  if (side.live_recall) out->set_live_recall(*side.live_recall);
}

}  // namespace

void ToWire(const CanaryStatus& status, v1::CanaryInfo* out) {
  out->set_generation(status.generation);
  if (status.generation == 0) return;
  out->set_share(status.share);
  *out->mutable_began() = TimestampOf(status.began);
  ToWire(status.canary, out->mutable_canary());
  ToWire(status.active, out->mutable_active());
  out->set_unroutable(status.unroutable);
}

}  // namespace lightcone::server
