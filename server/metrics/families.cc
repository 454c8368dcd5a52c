#include "server/metrics/families.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "absl/time/clock.h"
#include "base/strings.h"

namespace lightcone::server {

prometheus::ClientMetric& FamilyList::Add(const std::string& name, const std::string& help, prometheus::MetricType type,
                                          const Labels& labels) {
  const auto [at, fresh] = positions_.try_emplace(name, families_.size());
  if (fresh) {
    prometheus::MetricFamily& family = families_.emplace_back();
    family.name = name;
    family.help = help;
    family.type = type;
  }
  prometheus::ClientMetric& metric = families_[at->second].metric.emplace_back();
  for (const auto& [key, value] : labels) metric.label.push_back({key, value});
  return metric;
}

void FamilyList::Summary(const std::string& name, const std::string& help, uint64_t count, double sum,
                         const std::vector<std::pair<double, double>>& quantiles, const Labels& labels) {
  prometheus::ClientMetric& metric = Add(name, help, prometheus::MetricType::Summary, labels);
  metric.summary.sample_count = count;
  metric.summary.sample_sum = sum;
  for (const auto& [quantile, value] : quantiles) metric.summary.quantile.push_back({quantile, value});
}

void FamilyList::Histogram(const std::string& name, const std::string& help, uint64_t count, double sum,
                           const std::vector<std::pair<double, uint64_t>>& buckets, const Labels& labels) {
  prometheus::ClientMetric& metric = Add(name, help, prometheus::MetricType::Histogram, labels);
  metric.histogram.sample_count = count;
  metric.histogram.sample_sum = sum;
  for (const auto& [bound, below] : buckets) metric.histogram.bucket.push_back({below, bound});
  metric.histogram.bucket.push_back({count, std::numeric_limits<double>::infinity()});
}

void AddRpcFamilies(const RpcFigures& figures, FamilyList* out) {
  out->Gauge("lightcone_ready", "1 while new calls are taken, 0 while draining; absent while starting.",
             figures.ready ? 1 : 0);
  out->Gauge("lightcone_in_flight_calls", "Calls that were taken and are not answered yet.", figures.in_flight);
  for (const LaneFigures& lane : figures.lanes) {
    const FamilyList::Labels labels = {{"lane", lane.lane}};
    out->Gauge("lightcone_lane_queued_calls", "Calls that wait for a thread of their lane.", lane.queued, labels);
    out->Gauge("lightcone_lane_running_calls", "Calls that run on a thread of their lane.", lane.running, labels);
    out->Counter("lightcone_lane_rejected_total", "Calls refused with RESOURCE_EXHAUSTED by their lane.",
                 lane.rejected_total, labels);
    out->Gauge("lightcone_lane_overloaded",
               "1 while more calls come than are done, and the bound of overload holds; else 0.",
               lane.overloaded ? 1 : 0, labels);
    out->Histogram("lightcone_lane_wait_seconds", "Time that begun calls waited for a thread of their lane.",
                   lane.begun, lane.wait_seconds_sum, lane.wait_buckets, labels);
    for (const auto& [reason, calls] : lane.refused) {
      out->Counter("lightcone_lane_refused_total",
                   "Calls that were not begun: the queue was full, the wait would pass its bound (wait) or the call's "
                   "deadline (deadline), or the deadline passed in the queue (expired).",
                   calls, {{"lane", lane.lane}, {"reason", reason}});
    }
  }
  AddTrustFamilies(figures.trust, out);
  if (figures.trace.has_value()) AddTraceFamilies(*figures.trace, out);
  out->Gauge("lightcone_watches", "Watch streams that are open.", figures.watches);
}

namespace {

// What was measured of sealed segments, for searches that name no breadth.
void AddMeasuredRecall(const CollectionStatus& status, FamilyList* out) {
  const FamilyList::Labels labels = {{"collection", status.name}};
  int64_t scanned = 0;
  std::optional<double> least;
  for (const SegmentInfo& segment : status.segments) {
    if (!segment.default_recall) continue;
    scanned += segment.default_breadth == 0 ? 1 : 0;
    least = std::min(least.value_or(1.0), *segment.default_recall);
  }
  out->Gauge("lightcone_index_scanned_segments",
             "Segments with a graph or lists that find too few of the nearest rows at any breadth: searches scan them.",
             scanned, labels);
  if (!least) return;
  out->Gauge("lightcone_index_measured_recall",
             "Least recall of a segment, measured when it was sealed, at the breadth of a search that names none.",
             *least, labels);
}

void AddSegments(const CollectionStatus& status, FamilyList* out) {
  struct Sums {
    int64_t segments = 0, rows = 0, dead_rows = 0, bytes = 0;
  };
  std::map<std::pair<uint32_t, std::string>, Sums> sums;  // sums by generation and kind
  for (const SegmentInfo& segment : status.segments) {
    Sums& sum = sums[{segment.generation, segment.kind}];
    ++sum.segments;
    sum.rows += segment.rows;
    sum.dead_rows += segment.dead_rows;
    sum.bytes += segment.bytes;
  }
  for (const auto& [key, sum] : sums) {
    const FamilyList::Labels labels = {
        {"collection", status.name}, {"generation", StrCat(key.first)}, {"kind", key.second}};
    out->Gauge("lightcone_index_segments", "Segments of the index.", sum.segments, labels);
    out->Gauge("lightcone_index_rows", "Rows of the index, dead ones included.", sum.rows, labels);
    out->Gauge("lightcone_index_tombstones", "Rows of the index that are dead.", sum.dead_rows, labels);
    out->Gauge("lightcone_index_size_bytes", "Size of the segments.", sum.bytes, labels);
  }
}

void AddModelWatch(const CollectionStatus& status, FamilyList* out) {
  for (const ModelWatchStatus& watched : status.model_watch) {
    for (const auto& [of, stream] : {std::pair{"rows", &watched.rows}, std::pair{"queries", &watched.queries}}) {
      const FamilyList::Labels labels = {
          {"collection", status.name}, {"generation", StrCat(watched.generation)}, {"of", of}};
      out->Counter("lightcone_foreign_vectors_total",
                   "Vectors, among those looked at since the start, that the generation's model hardly gives.",
                   stream->foreign, labels);
      out->Gauge("lightcone_model_alarms",
                 "Alarms that are on: vectors may not come from the generation's model (collection get names them).",
                 static_cast<int64_t>(stream->alarms.size()), labels);
    }
  }
}

void AddCollection(const CollectionStatus& status, FamilyList* out) {
  const FamilyList::Labels labels = {{"collection", status.name}};
  out->Gauge("lightcone_active_generation", "The generation that serves; 0 before the first activation.",
             status.active_generation, labels);
  out->Gauge("lightcone_sequence", "Sequence of the latest write.", status.sequence, labels);
  for (const auto& [generation, items] : status.items_by_generation) {
    out->Gauge("lightcone_items", "Items by the generation of their head.", items,
               {{"collection", status.name}, {"generation", StrCat(generation)}});
  }
  AddSegments(status, out);
  AddMeasuredRecall(status, out);
  out->Gauge("lightcone_index_mapped_bytes", "Bytes of segment files mapped into memory.", status.mapped_bytes, labels);
  out->Counter("lightcone_items_expired_total",
               "Items that reached the end of their TTL and were removed since the start.",
               static_cast<int64_t>(status.items_expired), labels);
  AddModelWatch(status, out);
  out->Gauge("lightcone_payload_index_bytes", "Bytes of payload indexes, part of lightcone_index_heap_bytes.",
             status.payload_index_bytes, labels);
  out->Gauge("lightcone_index_heap_bytes", "Bytes of the index on the heap.", status.heap_bytes, labels);
  out->Gauge("lightcone_carried_rows", "Rows that item adapters have carried over into files.", status.carried_rows,
             labels);
  out->Gauge("lightcone_carried_bytes", "Bytes of the files that lightcone_carried_rows counts, mapped.",
             status.carried_bytes, labels);
  out->Gauge("lightcone_index_builds_running", "Segments that are being built now.", status.builds_running, labels);
  out->Counter("lightcone_index_builds_total", "Segments built since the start.", status.builds_total, labels);
  out->Gauge("lightcone_index_failing", "1: background work on the index fails, and is tried again.",
             status.index_error.ok() ? 0 : 1, labels);
  out->Gauge("lightcone_writes_refused", "1: the collection takes no writes until a restart.",
             status.write_error.ok() ? 0 : 1, labels);
  out->Counter("lightcone_index_rebuilds_total", "Damaged or missing segments rebuilt from the store since the start.",
               status.rebuilds_total, labels);
  out->Gauge("lightcone_index_unchecked_segments", "Segments whose files have not been read through since the start.",
             status.segments_unchecked, labels);
  out->Gauge("lightcone_index_damaged_segments",
             "Damaged segments whose rows are being taken from the store: searches of them answer UNAVAILABLE.",
             status.segments_damaged, labels);
}

}  // namespace

void AddDevice(const gpu::ServingStatus& device, FamilyList* out) {
  out->Gauge("lightcone_gpu_info", "1: what scans sealed segments (serving: the device; none, lost: the CPU), and why.",
             1, {{"state", device.state}, {"reason", device.reason}});
  if (device.state == "none") return;
  out->Gauge("lightcone_gpu_memory_bytes", "Memory of the device that segments take.", device.stats.bytes);
  out->Gauge("lightcone_gpu_memory_max_bytes", "Memory of the device that segments may take.", device.stats.bytes_max);
  out->Counter("lightcone_gpu_scans_total", "Scans of one query each that the device answered.", device.stats.scans);
  out->Counter("lightcone_gpu_incomplete_total", "Scans that the device gave back to the CPU.",
               device.stats.incomplete);
  out->Counter("lightcone_gpu_refused_segments_total",
               "Segments that did not fit on the device and stayed with the CPU.", device.stats.segments_refused);
  out->Counter("lightcone_gpu_lost_total", "1 once the device has failed; the CPU serves from then on.",
               device.stats.lost ? 1 : 0);
}

void AddSnapshots(const SnapshotFigures& figures, FamilyList* out) {
  out->Gauge("lightcone_snapshots", "Whole snapshots in the folder of the server.", figures.count);
  out->Gauge("lightcone_snapshot_size_bytes",
             "Sizes of all snapshots together; files that they share count once in each of them.", figures.bytes);
  out->Counter("lightcone_snapshot_failures_total", "Snapshots that could not be made, or were found to be damaged.",
               figures.failures_total);
  if (!figures.newest_verified) return;
  out->Gauge("lightcone_snapshot_verified_age_seconds",
             "Age of the newest snapshot whose bytes were all found to be good; absent: there is none.",
             absl::ToDoubleSeconds(absl::Now() - *figures.newest_verified));
}

void AddEngineFamilies(Engine& engine, FamilyList* out) {
  const absl::StatusOr<std::vector<CollectionStatus>> collections = engine.ListCollections();
  out->Gauge("lightcone_collections", "Collections that are served.", collections.ok() ? collections->size() : 0);
  if (collections.ok()) {
    for (const CollectionStatus& status : *collections) {
      AddCollection(status, out);
      const absl::StatusOr<LiveRecallStatus> live = engine.GetLiveRecall(status.name);
      if (live.ok()) AddLiveFamilies(status.name, *live, out);  // not ok: the collection was dropped just now
      const absl::StatusOr<BackfillStatus> backfill = engine.GetBackfill(status.name);
      if (backfill.ok()) AddBackfill(status.name, *backfill, out);
      const absl::StatusOr<CanaryStatus> canary = engine.GetCanary(status.name);
      if (canary.ok()) AddCanary(status.name, *canary, out);
    }
  }
  for (const auto& [name, why] : engine.RefusedCollections()) {
    out->Gauge("lightcone_collection_refused", "1: the start refused this stored collection; the log says why.", 1,
               {{"collection", name}});
  }
  const absl::StatusOr<JobPage> trainings = engine.ListJobs("", Engine::kTrainJob, 100, "");
  if (trainings.ok()) {
    for (const JobStatus& job : trainings->jobs) AddTraining(job, out);
  }
  AddLiveSampling(engine.LiveSampling(), out);
  AddDevice(gpu::ServingDeviceStatus(), out);
  AddDisk(engine.options().data_folder, out);
  AddSnapshots(engine.snapshots().Figures(), out);
  const StoreStats store = engine.StoreStatistics();
  out->Gauge("lightcone_store_size_bytes", "Bytes of the store on disk.", store.disk_bytes);
  out->Gauge("lightcone_store_memtable_bytes", "Bytes written and not yet flushed to tables.", store.memtable_bytes);
  out->Gauge("lightcone_store_stalled", "1 while the store delays or stops writes.", store.stalled);
  out->Gauge("lightcone_store_read_only", "1: an I/O error has ended writing, until a restart.", store.read_only);
  out->Gauge("lightcone_store_reserve_bytes",
             "Bytes of the disk that are kept for deletes and operators; 0 while they are in use.",
             store.reserve_bytes);
  out->Gauge("lightcone_store_growth_refused",
             "1: the disk is full; new items and index builds are refused until there is room.", store.growth_refused);
  out->Counter("lightcone_store_background_errors_total",
               "Failed flushes, compactions and manifest writes of the store, which are tried again.",
               store.background_errors_total);
  out->Counter("lightcone_store_background_resumes_total", "Times that the store went on after such errors.",
               store.background_resumes_total);
  out->Gauge("lightcone_store_keys", "Keys of the store, estimated.", store.estimated_keys);
  out->Counter("lightcone_store_syncs_total", "Syncs to disk for durable writes; concurrent writers share one.",
               store.syncs_total);
  out->Counter("lightcone_store_writes_total", "Batches that the store has written.", store.writes_total);
}

}  // namespace lightcone::server
