// Figures that each scrape reads from their owners. Nothing has to be kept up to date, or forgotten when a collection
// is dropped. Threads: a FamilyList belongs to one thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "index/gpu/serving_device.h"
#include "prometheus/metric_family.h"
#include "server/engine/api/engine.h"
#include "server/metrics/metrics.h"

namespace lightcone::server {

class FamilyList {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;
  template <typename Number>
  void Gauge(const std::string& name, const std::string& help, Number value, const Labels& labels = {}) {
    Add(name, help, prometheus::MetricType::Gauge, labels).gauge.value = static_cast<double>(value);
  }
  template <typename Number>
  void Counter(const std::string& name, const std::string& help, Number value, const Labels& labels = {}) {
    Add(name, help, prometheus::MetricType::Counter, labels).counter.value = static_cast<double>(value);
  }
  // `buckets`: ascending upper bounds, and how many values were at most as large.
  void Histogram(const std::string& name, const std::string& help, uint64_t count, double sum,
                 const std::vector<std::pair<double, uint64_t>>& buckets, const Labels& labels);
  // `quantiles`: pairs of a quantile and its value.
  void Summary(const std::string& name, const std::string& help, uint64_t count, double sum,
               const std::vector<std::pair<double, double>>& quantiles, const Labels& labels);
  std::vector<prometheus::MetricFamily> Take() { return std::move(families_); }

 private:
  prometheus::ClientMetric& Add(const std::string& name, const std::string& help, prometheus::MetricType type,
                                const Labels& labels);

  std::vector<prometheus::MetricFamily> families_;
  absl::flat_hash_map<std::string, size_t> positions_;
};

void AddRpcFamilies(const RpcFigures& figures, FamilyList* out);
void AddTrustFamilies(const TrustFigures& figures, FamilyList* out);
void AddTraceFamilies(const TraceFigures& figures, FamilyList* out);
void AddEngineFamilies(Engine& engine, FamilyList* out);
void AddLiveFamilies(const std::string& collection, const LiveRecallStatus& status, FamilyList* out);
// The device of the process, which all collections share.
void AddDevice(const gpu::ServingStatus& device, FamilyList* out);
void AddBackfill(const std::string& collection, const BackfillStatus& status, FamilyList* out);
// Adds nothing unless the training runs.
void AddTraining(const JobStatus& job, FamilyList* out);
// Adds both sides of a canary, if there is one.
void AddCanary(const std::string& collection, const CanaryStatus& status, FamilyList* out);
// Adds the size and free space of the file system that holds the data folder.
void AddDisk(const std::string& data_folder, FamilyList* out);
// Adds what is known of the folder of snapshots.
void AddSnapshots(const SnapshotFigures& figures, FamilyList* out);
void AddLiveSampling(const LiveSamplerStatus& status, FamilyList* out);

}  // namespace lightcone::server
