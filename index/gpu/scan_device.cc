#include "index/gpu/scan_device.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "base/priority.h"
#include "base/status.h"
#include "index/gpu/device_test.h"
#include "spdlog/spdlog.h"

namespace lightcone::gpu {
namespace {

constexpr double kShareOfFree = 0.9;          // default share of the device's free memory
constexpr int64_t kFoundBytesMax = 64 << 20;  // bytes for found rows; fewer of a small budget, but room for one query
constexpr int64_t kFoundShare = 16;           // the budget's share for arguments is one in this many
constexpr int64_t kArgsBytesMax = 16 << 20;   // bytes for arguments: a thousand queries of 1,536 numbers
constexpr int64_t kArgsShare = 32;            // ... or so many fewer that they fit into this part of a small budget
constexpr absl::Duration kTurnMax = absl::Seconds(1);            // longest wait for a turn; a CPU has scanned by then
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(2);  // time between looks at deadlines while waiting
constexpr int kCopierNice = 10;                                  // priority of the thread that builds segments
constexpr int kTries = 3;  // tries of a query that found more rows than it had room for

}  // namespace

absl::StatusOr<std::shared_ptr<ScanDevice>> ScanDevice::Open(std::unique_ptr<DeviceMachine> machine,
                                                             const DeviceOptions& options) {
  LC_RETURN_IF_ERROR(options.Validate());
  const std::string name = machine->name();
  LC_ASSIGN_OR_RETURN(const int64_t free, machine->FreeBytes());
  const int64_t allowed = options.memory_bytes_max > 0 ? options.memory_bytes_max
                                                       : static_cast<int64_t>(kShareOfFree * static_cast<double>(free));
  auto budget = std::make_shared<DeviceBudget>(std::move(machine), allowed);
  std::shared_ptr<ScanDevice> device(new ScanDevice(std::move(budget), options));
  const int64_t least = ScanRun::FoundPlaces(kDeviceKMax) * static_cast<int64_t>(sizeof(FoundRow));
  const int64_t found = std::max(least, std::min(kFoundBytesMax, allowed / kFoundShare));
  LC_ASSIGN_OR_RETURN(device->found_, device->budget_->Take(found));
  LC_ASSIGN_OR_RETURN(device->args_, device->budget_->Take(std::min(kArgsBytesMax, allowed / kArgsShare)));
  const absl::Status right = TestDevice(*device);
  if (!right.ok()) return Unavailable(StrCat("the device '", name, "' is not used: ", MessageOf(right)));
  device->copied_ = device->scans_ = device->incomplete_ = 0;
  if (!options.copy_at_once) device->copier_ = std::thread([raw = device.get()] { raw->CopyLoop(); });
  return device;
}

ScanDevice::~ScanDevice() { StopCopying(); }

void ScanDevice::StopCopying() {
  {
    absl::MutexLock lock(&queue_mu_);
    stopping_ = true;
  }
  std::call_once(copier_stopped_, [this] {
    if (copier_.joinable()) copier_.join();
  });
}

DeviceStats ScanDevice::Stats() const {
  DeviceStats stats;
  stats.bytes = budget_->bytes();
  stats.bytes_max = budget_->bytes_max();
  stats.segments_copied = copied_;
  stats.segments_refused = refused_;
  stats.scans = scans_;
  stats.incomplete = incomplete_;
  stats.lost = lost();
  return stats;
}

void ScanDevice::Lose(const absl::Status& status) {
  if (lost_.exchange(true)) return;
  spdlog::error("gpu: the device '{}' is lost, and the CPU serves from here on: {}", name(), MessageOf(status));
}

std::shared_ptr<const DeviceRows> ScanDevice::RowsOf(const std::shared_ptr<const Segment>& segment) {
  if (lost() || !segment->lasting() || segment->block().rows == nullptr) return nullptr;
  DeviceCopy& copy = segment->device_copy();
  if (auto rows = copy.rows(budget_->serial())) return rows;
  if (!copy.Want(budget_->state())) return nullptr;
  if (options_.copy_at_once) {
    CopySegment(*segment);
    return copy.rows(budget_->serial());
  }
  absl::MutexLock lock(&queue_mu_);
  if (!stopping_) wanted_.push_back(segment);
  return nullptr;
}

void ScanDevice::CopyLoop() {
  StandBack(kCopierNice);
  while (true) {
    std::shared_ptr<const Segment> segment;
    {
      absl::MutexLock lock(&queue_mu_);
      const auto awake = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mu_) { return stopping_ || !wanted_.empty(); };
      queue_mu_.Await(absl::Condition(&awake));
      if (stopping_) return;
      segment = wanted_.front().lock();
      wanted_.pop_front();
    }
    if (segment != nullptr) CopySegment(*segment);
  }
}

// Of a segment that lasts, rows() never changes.
void ScanDevice::CopySegment(const Segment& segment) {
  const DeviceRows::Source source{&segment.space(), &segment.block(), segment.codes(), segment.rows()};
  const BudgetState before = budget_->state();
  DeviceCopy& copy = segment.device_copy();
  absl::StatusOr<std::shared_ptr<const DeviceRows>> rows = absl::UnknownError("");
  try {
    rows = DeviceRows::Make(budget_, source, options_.storage, [this] { return stopping_ || lost(); });
  } catch (const std::bad_alloc&) {
    rows = ResourceExhausted("out of memory");
  }
  // A page that could not be read was zeros: no error, and yet no rows of the segment.
  if (rows.ok() && segment.damaged()) rows = DataLoss("it is damaged");
  const absl::StatusCode code = rows.status().code();
  if (rows.ok()) {
    ++copied_;
    spdlog::info("gpu: segment {} of generation {} is on the device: {} rows, {} bytes", segment.id(),
                 segment.generation(), (*rows)->count(), (*rows)->bytes());
    copy.Set(before.serial, std::move(*rows));
    return;
  }
  ++refused_;
  if (code == absl::StatusCode::kDataLoss) {
    copy.RefuseForEver();
  } else {
    copy.Refuse(before, DeviceRows::BytesOf(source.rows, source.space->dimension, options_.storage));
  }
  if (code == absl::StatusCode::kCancelled) return;
  if (code != absl::StatusCode::kResourceExhausted && code != absl::StatusCode::kDataLoss) return Lose(rows.status());
  spdlog::info("gpu: segment {} of generation {} stays with the CPU: {}", segment.id(), segment.generation(),
               MessageOf(rows.status()));
}

std::shared_ptr<const DeviceBits> ScanDevice::BitsOf(const DeviceRows& rows,
                                                     const std::shared_ptr<const StateCounts>& counts,
                                                     uint32_t view_generation,
                                                     absl::FunctionRef<bool(uint32_t)> visible) {
  if (lost()) return nullptr;
  auto bits = rows.BitsOf(counts, view_generation, visible);
  if (bits.ok()) return std::move(*bits);
  if (bits.status().code() != absl::StatusCode::kResourceExhausted) Lose(bits.status());
  return nullptr;
}

bool ScanDevice::TakeTurn(std::span<const DeviceQuery> queries) {
  const absl::Time until = absl::Now() + kTurnMax;
  const auto gave_up = [](const DeviceQuery& query) { return query.gave_up && query.gave_up(); };
  const auto free = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_mu_) { return !turn_taken_; };
  while (true) {
    {
      absl::MutexLock lock(&turn_mu_);
      if (turn_mu_.AwaitWithTimeout(absl::Condition(&free), kBetweenLooks)) {
        turn_taken_ = true;
        return true;
      }
    }
    if (lost() || absl::Now() >= until || std::all_of(queries.begin(), queries.end(), gave_up)) return false;
  }
}

absl::StatusOr<std::vector<DeviceAnswer>> ScanDevice::Run(std::span<const DeviceQuery> queries) {
  ScanRun run(budget_->machine(), queries);  // codes the queries, which nobody has to wait for
  if (run.args_bytes() > args_.bytes())
    return ResourceExhausted(StrCat(queries.size(), " queries do not fit on the device"));
  if (!TakeTurn(queries)) return DeadlineExceeded("no turn on the device");
  const absl::Cleanup end = [this] {
    absl::MutexLock lock(&turn_mu_);
    turn_taken_ = false;
  };
  if (lost()) return Unavailable("lost meanwhile");
  return run.Go(args_.at(), found_.at());
}

size_t ScanDevice::GroupOf(std::span<const DeviceQuery> queries, std::span<const size_t> chosen) const {
  int64_t wanted = 1;
  size_t size = 0;
  for (; size < chosen.size() && static_cast<int64_t>(size) < kStatesMax; ++size) {
    wanted = std::max(wanted, WantedOf(queries[chosen[size]]));
    const int64_t bytes = ScanRun::FoundPlaces(wanted) * static_cast<int64_t>((size + 1) * sizeof(FoundRow));
    if (size > 0 && bytes > found_.bytes()) break;
  }
  return size;
}

absl::Status ScanDevice::RunChosen(std::span<const DeviceQuery> queries, std::span<const size_t> chosen,
                                   std::vector<DeviceAnswer>* answers) {
  size_t most = chosen.size();
  while (!chosen.empty()) {
    std::vector<DeviceQuery> group;
    std::vector<size_t> asked;
    const size_t size = std::min(most, GroupOf(queries, chosen));
    for (const size_t i : chosen.first(size)) {
      if (queries[i].gave_up && queries[i].gave_up()) continue;
      asked.push_back(i);
      group.push_back(queries[i]);
      group.back().floor = std::max(group.back().floor, (*answers)[i].floor);
    }
    if (!group.empty()) {
      absl::StatusOr<std::vector<DeviceAnswer>> some = Run(group);
      if (absl::IsResourceExhausted(some.status())) {
        if (size > 1) {
          most = size / 2;
        } else {
          chosen = chosen.subspan(1);
        }
        continue;
      }
      LC_RETURN_IF_ERROR(some.status());
      for (size_t i = 0; i < some->size(); ++i) (*answers)[asked[i]] = std::move((*some)[i]);
    }
    chosen = chosen.subspan(size);
  }
  return absl::OkStatus();
}

std::vector<DeviceAnswer> ScanDevice::Scan(std::span<const DeviceQuery> queries) {
  std::vector<DeviceAnswer> answers(queries.size());
  std::vector<size_t> open;
  for (size_t i = 0; i < queries.size(); ++i) {
    answers[i].floor = queries[i].floor;
    const int64_t wanted = WantedOf(queries[i]);
    if (wanted >= 1 && wanted <= kDeviceKMax) open.push_back(i);
  }
  for (int tries = 0; tries < kTries && !lost(); ++tries) {
    std::erase_if(open, [&](size_t i) { return queries[i].gave_up && queries[i].gave_up(); });
    if (open.empty()) break;
    absl::Status status;
    try {
      status = RunChosen(queries, open, &answers);
    } catch (const std::bad_alloc&) {
      status = ResourceExhausted("out of memory");
    }
    if (!status.ok()) {
      if (!absl::IsResourceExhausted(status) && !absl::IsDeadlineExceeded(status) && !lost()) Lose(status);
      break;
    }
    std::erase_if(open, [&](size_t i) { return answers[i].complete; });
  }
  for (DeviceAnswer& answer : answers) ++(answer.complete ? scans_ : incomplete_);
  return answers;
}

}  // namespace lightcone::gpu
