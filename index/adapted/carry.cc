#include "index/adapted/carry.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/dcheck.h"
#include "base/exceptions.h"
#include "base/files.h"
#include "base/status.h"
#include "geometry/codes.h"
#include "index/build/calibration.h"
#include "index/build/segment_writer.h"
#include "index/rows/adapted_rows.h"
#include "index/rows/segment_codes.h"

namespace lightcone {
namespace {

constexpr int64_t kRowsAtOnce = 1024;
// Recall along the old graph may be this much lower among carried rows than among the segment's own.
constexpr double kRecallLossMax = 0.01;

// Source of a carried segment: rows in their file, in the layout of vectors.f32, and their factors.
class CarriedSource final : public Segment {
 public:
  CarriedSource(const Segment& segment, const Space& target, std::vector<RowFactors> factors)
      : Segment(segment.id(), segment.generation(), target), factors_(std::move(factors)) {
    block_ = {nullptr, StrideOf(target.dimension), factors_.data(), segment.block().ids, segment.block().uncertainty};
    counts_.rows = segment.rows();
  }
  absl::Status Map(const std::string& path) {
    LC_ASSIGN_OR_RETURN(vectors_, Mapping::OfFile(path, &damaged_));
    block_.rows = vectors_.as<const float>();
    return absl::OkStatus();
  }
  std::string_view kind() const override { return "carried"; }
  std::optional<int64_t> Find(uint64_t) const override { return std::nullopt; }
  int64_t mapped_bytes() const override { return static_cast<int64_t>(vectors_.bytes()); }
  int64_t heap_bytes() const override { return static_cast<int64_t>(factors_.size() * sizeof(RowFactors)); }

 private:
  Mapping vectors_;
  const std::vector<RowFactors> factors_;
};

// Carries the rows of a segment into a file, several threads at once.
class RowCarrier {
 public:
  RowCarrier(const CarryPlan& plan, std::string path, const std::function<bool()>& stop)
      : segment_(*plan.segment), adapter_(*plan.adapter), path_(std::move(path)), stop_(stop) {
    factors_.resize(static_cast<size_t>(segment_.rows()));
  }
  RowCarrier(const RowCarrier&) = delete;
  RowCarrier& operator=(const RowCarrier&) = delete;
  ~RowCarrier() {
    if (fd_ >= 0) ::close(fd_);
  }

  absl::Status Run(int threads) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd_ < 0) return ErrnoStatus(errno, "create", path_);
    {
      std::vector<std::jthread> others;
      try {
        for (int t = 1; t < threads; ++t) others.emplace_back([this] { Work(/*first=*/false); });
      } catch (...) {
        failed_ = true;
        throw;
      }
      Work(/*first=*/true);
    }  // joins the threads
    absl::MutexLock lock(&mu_);
    return status_;
  }

  std::vector<RowFactors> TakeFactors() { return std::move(factors_); }

 private:
  void Work(bool first) {
    try {
      while (!failed_) {
        const int64_t begin = next_.fetch_add(kRowsAtOnce);
        if (begin >= segment_.rows()) return;
        if (first && stop_()) {
          Fail(MakeStatus(absl::StatusCode::kCancelled, "carrying a segment stopped"));
          return;
        }
        if (absl::Status status = CarryBlock(begin, std::min(kRowsAtOnce, segment_.rows() - begin)); !status.ok()) {
          Fail(std::move(status));
        }
      }
    } catch (...) {
      Fail(StatusOfException());
    }
  }

  absl::Status CarryBlock(int64_t begin, int64_t n) {
    const RowBlock& rows = segment_.block();
    const AdaptedBlock block =
        AdaptBlock(adapter_, rows.rows + static_cast<size_t>(begin) * rows.stride, rows.stride, n);
    const auto bad = std::find(block.valid.begin(), block.valid.end(), 0);
    if (bad != block.valid.end()) {
      const int64_t row = begin + (bad - block.valid.begin());
      return InvalidArgument(StrCat("the adapter makes no vector of its target space of row ", row, " of segment ",
                                    segment_.id(), ", internal id ", rows.ids[row]));
    }
    std::copy(block.factors.begin(), block.factors.end(), factors_.begin() + begin);
    return Write(
        begin * static_cast<int64_t>(block.stride * sizeof(float)),
        {reinterpret_cast<const char*>(block.rows.data()), static_cast<size_t>(n) * block.stride * sizeof(float)});
  }

  absl::Status Write(int64_t at, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, "write", path_);
      bytes.remove_prefix(static_cast<size_t>(n));
      at += n;
    }
    return absl::OkStatus();
  }

  void Fail(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (status_.ok()) status_ = std::move(status);
    failed_ = true;
  }

  const SealedSegment& segment_;
  const Adapter& adapter_;
  const std::string path_;
  const std::function<bool()>& stop_;
  int fd_ = -1;
  std::vector<RowFactors> factors_;  // Each thread writes the factors of its blocks.
  std::atomic<int64_t> next_{0};
  std::atomic<bool> failed_{false};
  absl::Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

std::vector<RowReference> AllRows(const Segment& segment) {
  std::vector<RowReference> rows(static_cast<size_t>(segment.rows()));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = {segment.block().ids[i], 0, static_cast<uint32_t>(i)};
  return rows;
}

absl::StatusOr<std::shared_ptr<SealedSegment>> WriteCarried(const CarryPlan& plan, SealedKind kind,
                                                            const std::string& vectors_file,
                                                            const std::shared_ptr<Segment>& source,
                                                            const std::string& folder,
                                                            const std::function<bool()>& stop) {
  const SegmentManifest& of = plan.segment->manifest();
  SegmentPlan segment{of.id, of.first_sequence, of.last_sequence, plan.settings, vectors_file, /*provisional=*/false};
  segment.settings.kind = kind;
  segment.settings.codes = CodesWithoutLists(plan.settings.codes);
  std::vector<RowReference> rows = AllRows(*source);
  auto written = WriteSegment(folder, segment, {source}, rows, BuildControl{stop});
  if (written.ok() && source->damaged()) return DataLoss("rows could not be read while they were written");
  return written;
}

}  // namespace

AdaptedSegment::AdaptedSegment(std::shared_ptr<const Segment> segment, std::shared_ptr<const CarriedSegment> carried,
                               const RowStates* states)
    : Segment(segment->id(), segment->generation(), carried->files->space()),
      segment_(std::move(segment)),
      carried_(std::move(carried)) {
  LC_DCHECK(carried_->files->rows() == segment_->rows());
  block_ = carried_->files->block();
  states_seen_ = states != nullptr ? states : &segment_->states();
  counts_.rows = carried_->files->rows();
  bias_max_ = carried_->files->bias_max();
}

int64_t CarriedBytes(const SealedSegment& segment, const Adapter& adapter, const IndexSettings& settings) {
  const int dimension = adapter.output_dimension();
  const std::optional<CodeKind> coded = CodeKindOf(CodesWithoutLists(settings.codes), dimension);
  const size_t row = StrideOf(dimension) * sizeof(float) + sizeof(RowFactors) + sizeof(uint64_t) + sizeof(float) +
                     (coded ? CodeStride(*coded, dimension) : 0) +
                     static_cast<size_t>(2 * settings.hnsw_m + settings.hnsw_m / 4 + 4) * 4;
  return segment.rows() * static_cast<int64_t>(row) + 4096 + 8 * dimension;
}

absl::StatusOr<std::shared_ptr<SealedSegment>> CarryRows(const CarryPlan& plan, const std::string& folder,
                                                         const std::function<bool()>& stop) {
  const Space target = Normalized(plan.adapter->target());
  const std::string vectors_file = folder + ".rows";
  absl::StatusOr<std::shared_ptr<SealedSegment>> written = [&]() -> absl::StatusOr<std::shared_ptr<SealedSegment>> {
    RowCarrier carrier(plan, vectors_file, stop);
    LC_RETURN_IF_ERROR(carrier.Run(plan.settings.build_threads));
    const auto source = std::make_shared<CarriedSource>(*plan.segment, target, carrier.TakeFactors());
    LC_RETURN_IF_ERROR(source->Map(vectors_file));
    return WriteCarried(plan, SealedKind::kFlat, vectors_file, source, folder, stop);
  }();
  std::error_code ignored;
  std::filesystem::remove(vectors_file, ignored);
  return written;
}

absl::StatusOr<bool> OldGraphHolds(const CarryPlan& plan, const std::shared_ptr<const SealedSegment>& carried,
                                   const std::function<bool()>& stop, std::vector<RecallAt>* walks) {
  walks->clear();
  if (plan.segment->graph() == nullptr) return false;
  const auto led = std::make_shared<const CarriedSegment>(CarriedSegment{carried, /*old_graph=*/true, {}});
  // Every row counts, as when the segment itself was measured: the carried files have states of their own.
  LC_ASSIGN_OR_RETURN(*walks,
                      MeasureRecall(std::make_shared<AdaptedSegment>(plan.segment, led, &carried->states()), stop));
  const std::span<const RecallAt> own = plan.segment->measured();
  if (own.empty()) return walks->empty();  // too few rows to measure, or a file of an earlier version
  bool compared = false;
  for (size_t i = 0, j = 0; i < own.size() && j < walks->size();) {
    if (own[i].breadth != (*walks)[j].breadth) {
      ++(own[i].breadth < (*walks)[j].breadth ? i : j);
      continue;
    }
    if ((*walks)[j].recall < own[i].recall - kRecallLossMax) return false;
    compared = true;
    ++i;
    ++j;
  }
  return compared;
}

absl::StatusOr<std::shared_ptr<SealedSegment>> GraphCarried(const CarryPlan& plan,
                                                            const std::shared_ptr<SealedSegment>& carried,
                                                            const std::string& vectors_file, const std::string& folder,
                                                            const std::function<bool()>& stop) {
  return WriteCarried(plan, SealedKind::kHnsw, vectors_file, carried, folder, stop);
}

}  // namespace lightcone
