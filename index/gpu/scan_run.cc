#include "index/gpu/scan_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "base/dcheck.h"
#include "base/status.h"

namespace lightcone::gpu {
namespace {

constexpr size_t kAlign = 256;  // alignment of arguments
constexpr int64_t kGrowthMax = 32;
constexpr int64_t kPlacesABest = 8;

size_t Aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

uint32_t TilesOf(int64_t rows) { return static_cast<uint32_t>((rows + kTileRows - 1) / kTileRows); }

// A float that is not above it.
float FloorOf(double floor) {
  const float nearest = static_cast<float>(floor);
  return nearest > floor ? std::nextafter(nearest, -std::numeric_limits<float>::infinity()) : nearest;
}

}  // namespace

uint32_t TileStep(uint32_t tiles) {
  uint32_t step = std::max<uint32_t>(1, static_cast<uint32_t>(0.618 * tiles));
  while (std::gcd(step, tiles) != 1) ++step;
  return step;
}

int64_t WantedOf(const DeviceQuery& query) {
  int64_t rows = 0;
  for (const DevicePart& part : query.parts) rows += part.rows->count();
  return std::min(query.k, rows);
}

int64_t ScanRun::FoundPlaces(int64_t wanted) { return std::max(kFoundMin, kPlacesABest * wanted); }

ScanRun::ScanRun(DeviceMachine& machine, std::span<const DeviceQuery> queries) : machine_(machine), queries_(queries) {
  codes_.reserve(queries.size());
  for (const DeviceQuery& query : queries) {
    codes_.emplace_back(*query.query);
    LC_DCHECK(WantedOf(query) >= 1 && WantedOf(query) <= kDeviceKMax);
    wanted_max_ = std::max(wanted_max_, WantedOf(query));
  }
  found_max_ = static_cast<uint32_t>(FoundPlaces(wanted_max_));
  numbers_at_[0].resize(queries.size());
  numbers_at_[1].resize(queries.size());
  Plan();
}

size_t ScanRun::Append(const void* bytes, size_t count) {
  const size_t at = args_.size();
  args_.resize(Aligned(at + count));
  std::memcpy(args_.data() + at, bytes, count);
  return at;
}

size_t ScanRun::NumbersAt(uint32_t state, bool halves, uint32_t numbers) {
  size_t& at = numbers_at_[halves ? 1 : 0][state];
  if (at == 0) {
    const std::vector<uint8_t> bytes = codes_[state].Numbers(halves, numbers);
    at = Append(bytes.data(), bytes.size());
  }
  return at;
}

void ScanRun::Plan() {
  std::vector<StateArgs> states;
  std::vector<Scanned> few, many;
  {
    std::vector<Scanned> all;
    absl::flat_hash_map<const DeviceRows*, size_t> known;
    for (uint32_t q = 0; q < queries_.size(); ++q) {
      states.push_back({FloorOf(queries_[q].floor), 0, 0, static_cast<uint32_t>(WantedOf(queries_[q]))});
      for (uint32_t p = 0; p < queries_[q].parts.size(); ++p) {
        const DeviceRows* rows = queries_[q].parts[p].rows.get();
        const auto [at, news] = known.try_emplace(rows, all.size());
        if (news) all.push_back({rows, {}});
        all[at->second].by.push_back({q, p});
      }
    }
    for (Scanned& one : all) {
      const bool held = one.rows->numbers() * kFewQueries * sizeof(float) <= kFewBytesMax;
      (held && one.by.size() <= kFewQueries ? few : many).push_back(std::move(one));
    }
  }
  states_at_ = Append(states.data(), states.size() * sizeof(StateArgs));
  if (!many.empty()) PlanPass(many, true);
  if (!few.empty()) PlanPass(few, false);
}

void ScanRun::PlanPass(std::span<const Scanned> segments, bool many) {
  const bool halves = segments[0].rows->storage() == DeviceStorage::kHalf;  // a device has one storage
  Pass pass;
  pass.kernel = many ? (halves ? ScanKernel::kManyHalves : ScanKernel::kManyFloats)
                     : (halves ? ScanKernel::kFewHalves : ScanKernel::kFewFloats);
  ScanLaunch& launch = pass.launch;
  std::vector<SegmentArgs> args;
  std::vector<QueryArgs> uses;
  size_t most = 1;
  for (const Scanned& one : segments) {
    args.push_back({one.rows->rows(), one.rows->tails(), static_cast<uint32_t>(one.rows->count()), one.rows->vectors(),
                    launch.tiles, static_cast<uint32_t>(uses.size()), static_cast<uint32_t>(one.by.size())});
    launch.tiles += TilesOf(one.rows->count());
    launch.vectors_max = std::max(launch.vectors_max, one.rows->vectors());
    most = std::max(most, one.by.size());
    for (const Use& use : one.by) {
      QueryArgs& query = uses.emplace_back(codes_[use.state].ArgsFor(*one.rows, many));
      const size_t at = NumbersAt(use.state, many && halves, one.rows->numbers());
      query.a = reinterpret_cast<const void*>(at);
      const DevicePart& part = queries_[use.state].parts[use.part];
      if (part.allowed != nullptr) query.allowed = reinterpret_cast<const uint32_t*>(part.allowed->memory.at());
      query.state = use.state;
      query.part = use.part;
    }
  }
  launch.segment_count = static_cast<uint32_t>(args.size());
  launch.state_count = static_cast<uint32_t>(queries_.size());
  launch.found_max = found_max_;
  launch.step = TileStep(launch.tiles);
  launch.query_tiles = static_cast<uint32_t>((most + kTileQueries - 1) / kTileQueries);
  launch.queries_held = most == 1 ? 1 : kFewQueries;
  pass.segments_at = Append(args.data(), args.size() * sizeof(SegmentArgs));
  pass.queries_at = Append(uses.data(), uses.size() * sizeof(QueryArgs));
  pass.uses = uses.size();
  passes_.push_back(pass);
}

absl::StatusOr<std::vector<DeviceAnswer>> ScanRun::Go(uint8_t* args, uint8_t* found) {
  for (const Pass& pass : passes_) {
    QueryArgs* const uses = reinterpret_cast<QueryArgs*>(args_.data() + pass.queries_at);
    for (size_t i = 0; i < pass.uses; ++i) uses[i].a = args + reinterpret_cast<size_t>(uses[i].a);
  }
  LC_RETURN_IF_ERROR(machine_.Write(args, args_.data(), args_bytes()));
  for (const Pass& pass : passes_) LC_RETURN_IF_ERROR(RunPass(pass, args, found));
  return Collect(args, found);
}

absl::Status ScanRun::RunPass(Pass pass, uint8_t* args, uint8_t* found) {
  ScanLaunch& launch = pass.launch;
  launch.segments = reinterpret_cast<const SegmentArgs*>(args + pass.segments_at);
  launch.queries = reinterpret_cast<const QueryArgs*>(args + pass.queries_at);
  launch.states = reinterpret_cast<StateArgs*>(args + states_at_);
  launch.found = reinterpret_cast<FoundRow*>(found);
  // Of as many rows again as were seen, about as many pass as are wanted: a quarter of the places is left to chance.
  const int64_t growth = std::clamp<int64_t>(found_max_ / (4 * wanted_max_), 2, kGrowthMax);
  int64_t end = found_max_ / kTileRows;
  for (int64_t begin = 0; begin < launch.tiles;) {
    launch.begin = static_cast<uint32_t>(begin);
    launch.end = static_cast<uint32_t>(std::min<int64_t>(end, launch.tiles));
    LC_RETURN_IF_ERROR(machine_.Scan(pass.kernel, launch));
    LC_RETURN_IF_ERROR(machine_.Select(launch));
    begin = launch.end;
    end = begin * growth;
  }
  return absl::OkStatus();
}

absl::Status ScanRun::Take(std::span<const FoundRow> found, uint32_t query, DeviceAnswer* answer) const {
  const std::vector<DevicePart>& parts = queries_[query].parts;
  for (const FoundRow& row : found) {
    if (row.part >= parts.size() || row.row >= parts[row.part].rows->count()) {
      return Internal(StrCat("the device found row ", row.row, " of part ", row.part, ", which there is not"));
    }
  }
  answer->rows.assign(found.begin(), found.end());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<DeviceAnswer>> ScanRun::Collect(const uint8_t* args, const uint8_t* found) const {
  std::vector<StateArgs> states(queries_.size());
  const int64_t bytes = static_cast<int64_t>(states.size() * sizeof(StateArgs));
  LC_RETURN_IF_ERROR(machine_.Read(states.data(), args + states_at_, bytes, bytes, 1));
  size_t most = 0;
  for (const StateArgs& state : states) {
    if (state.count > found_max_)
      return Internal(StrCat("the device found ", state.count, " rows in ", found_max_, " places"));
    most = std::max<size_t>(most, state.count);
  }
  std::vector<FoundRow> rows(states.size() * most);
  if (most > 0) {
    LC_RETURN_IF_ERROR(machine_.Read(rows.data(), found, static_cast<int64_t>(most * sizeof(FoundRow)),
                                     static_cast<int64_t>(found_max_ * sizeof(FoundRow)),
                                     static_cast<int64_t>(states.size())));
  }
  std::vector<DeviceAnswer> answers(states.size());
  for (uint32_t q = 0; q < states.size(); ++q) {
    answers[q].floor = std::max(queries_[q].floor, double{states[q].floor});
    if (states[q].overflowed != 0) continue;
    answers[q].complete = true;
    LC_RETURN_IF_ERROR(Take({rows.data() + q * most, states[q].count}, q, &answers[q]));
  }
  return answers;
}

}  // namespace lightcone::gpu
