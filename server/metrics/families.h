// Figures that are read from their owners at each scrape, so that nothing has to be kept up to date (or forgotten when
// a collection is dropped). Threads: FamilyList belongs to one thread.
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
  void Gauge(const std::string& name, const std::string& help, double value, const Labels& labels = {});
  void Counter(const std::string& name, const std::string& help, double value, const Labels& labels = {});
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
void AddEngineFamilies(Engine& engine, FamilyList* out);
void AddLiveFamilies(const std::string& collection, const LiveRecallStatus& status, FamilyList* out);
// The device of the process, which all collections share.
void AddDevice(const gpu::ServingStatus& device, FamilyList* out);
// The backfill of a collection, once one was started.
void AddBackfill(const std::string& collection, const BackfillStatus& status, FamilyList* out);
// A training that runs.
void AddTraining(const JobStatus& job, FamilyList* out);
// Both sides of a canary; nothing where there is none.
void AddCanary(const std::string& collection, const CanaryStatus& status, FamilyList* out);
// The file system that holds the data folder; nothing when it cannot be asked.
void AddDisk(const std::string& data_folder, FamilyList* out);
void AddLiveSampling(const LiveSamplerStatus& status, FamilyList* out);

}  // namespace lightcone::server
