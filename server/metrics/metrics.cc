#include "server/metrics/metrics.h"

#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"
#include "server/metrics/families.h"

namespace lightcone::server {
namespace {

const prometheus::Histogram::BucketBoundaries& Buckets() {
  static const auto* const buckets = new prometheus::Histogram::BucketBoundaries{
      0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
  return *buckets;
}

constexpr char kPartErrors[] = "lightcone_part_errors_total";
constexpr const char* kFaults[] = {"INTERNAL", "DATA_LOSS"};

}  // namespace

struct Metrics::State {
  std::string version;
  absl::Time started = absl::Now();
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>* requests = nullptr;
  prometheus::Family<prometheus::Counter>* part_errors = nullptr;  // Such errors are rare, so each is looked up.
  prometheus::Family<prometheus::Histogram>* durations = nullptr;
  absl::Mutex calls_mutex;
  // A family builds a map to look labels up. A call should not pay for that.
  absl::flat_hash_map<std::pair<std::string, std::string>, prometheus::Counter*> counters ABSL_GUARDED_BY(calls_mutex);
  absl::flat_hash_map<std::string, prometheus::Histogram*> histograms ABSL_GUARDED_BY(calls_mutex);

  prometheus::Counter* CounterOf(std::string_view method, std::string_view code)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(calls_mutex) {
    prometheus::Counter*& known = counters[std::make_pair(std::string(method), std::string(code))];
    if (known == nullptr) known = &requests->Add({{"method", std::string(method)}, {"code", std::string(code)}});
    return known;
  }

  absl::Mutex sources_mutex;
  Engine* engine ABSL_GUARDED_BY(sources_mutex) = nullptr;
  std::function<RpcFigures()> rpc ABSL_GUARDED_BY(sources_mutex);
};

Metrics::Metrics(std::string_view version) : state_(std::make_unique<State>()) {
  state_->version = std::string(version);
  state_->requests = &prometheus::BuildCounter()
                          .Name("lightcone_requests_total")
                          .Help("Calls that ended, by method and canonical code.")
                          .Register(state_->registry);
  state_->part_errors = &prometheus::BuildCounter()
                             .Name(kPartErrors)
                             .Help(
                                 "Queries and stream batches answered by an error, by method and canonical code; "
                                 "their calls may have ended as OK.")
                             .Register(state_->registry);
  state_->durations = &prometheus::BuildHistogram()
                           .Name("lightcone_request_duration_seconds")
                           .Help("From the arrival of a call to its answer, time in queues included.")
                           .Register(state_->registry);
}

Metrics::~Metrics() = default;

void Metrics::ExpectCalls(std::string_view method) {
  absl::MutexLock lock(&state_->calls_mutex);
  for (const char* fault : kFaults) state_->CounterOf(method, fault);
}

void Metrics::ExpectParts(std::string_view method) {
  for (const char* fault : kFaults) RecordParts(method, fault, 0);
}

void Metrics::RecordParts(std::string_view method, std::string_view code, uint64_t parts) {
  state_->part_errors->Add({{"method", std::string(method)}, {"code", std::string(code)}})
      .Increment(static_cast<double>(parts));
}

void Metrics::RecordCall(std::string_view method, std::string_view code, absl::Duration elapsed) {
  prometheus::Counter* counter;
  prometheus::Histogram* histogram;
  {
    absl::MutexLock lock(&state_->calls_mutex);
    counter = state_->CounterOf(method, code);
    prometheus::Histogram*& timed = state_->histograms[std::string(method)];
    if (timed == nullptr) timed = &state_->durations->Add({{"method", std::string(method)}}, Buckets());
    histogram = timed;
  }
  counter->Increment();
  histogram->Observe(absl::ToDoubleSeconds(elapsed));
}

void Metrics::SetSources(Engine* engine, std::function<RpcFigures()> rpc) {
  absl::MutexLock lock(&state_->sources_mutex);
  state_->engine = engine;
  state_->rpc = std::move(rpc);
}

std::vector<CallFigures> Metrics::Calls() const {
  std::map<std::string, CallFigures> calls;
  const auto label = [](const prometheus::ClientMetric& metric, const char* name) {
    for (const auto& one : metric.label) {
      if (one.name == name) return one.value;
    }
    return std::string();
  };
  for (const prometheus::MetricFamily& family : state_->registry.Collect()) {
    for (const prometheus::ClientMetric& metric : family.metric) {
      if (family.type == prometheus::MetricType::Counter && metric.counter.value == 0) continue;
      CallFigures& figures = calls[label(metric, "method")];
      if (family.type == prometheus::MetricType::Counter) {
        auto& codes = family.name == kPartErrors ? figures.part_errors : figures.codes;
        codes.emplace_back(label(metric, "code"), static_cast<uint64_t>(metric.counter.value));
        continue;
      }
      figures.count = metric.histogram.sample_count;
      for (const auto& bucket : metric.histogram.bucket) {
        if (bucket.upper_bound < 1e9) figures.buckets.emplace_back(bucket.upper_bound, bucket.cumulative_count);
      }
    }
  }
  std::vector<CallFigures> out;
  for (auto& [method, figures] : calls) {
    figures.method = method;
    out.push_back(std::move(figures));
  }
  return out;
}

std::string Metrics::Scrape() {
  std::vector<prometheus::MetricFamily> all = state_->registry.Collect();
  FamilyList now;
  now.Gauge("lightcone_build_info", "Always 1; the label tells the version.", 1, {{"version", state_->version}});
  now.Gauge("lightcone_start_time_seconds", "When the server started, in seconds since 1970.",
            absl::ToDoubleSeconds(state_->started - absl::UnixEpoch()));
  {
    // Held while the sources are read, so that SetSources(nullptr) may be followed by their destruction.
    absl::MutexLock lock(&state_->sources_mutex);
    if (state_->rpc) AddRpcFamilies(state_->rpc(), &now);
    if (state_->engine != nullptr) AddEngineFamilies(*state_->engine, &now);
  }
  for (prometheus::MetricFamily& family : now.Take()) all.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace lightcone::server
