#include "stats/verification.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <queue>

#include "base/dcheck.h"
#include "base/status.h"

namespace lightcone {
namespace {

constexpr std::size_t kHalf = 65536;  // number of values of half the bits of a float
constexpr float kAcceptAll = -std::numeric_limits<float>::infinity();

// Unsigned numbers in the order of the floats; both zeros give one key.
std::uint32_t KeyOf(float score) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(score + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

float ScoreOf(std::uint32_t key) { return std::bit_cast<float>((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key); }

// floor(rate x n), at most n - 1, without the rounding error of the product (0.29 x 100 < 29). REQUIRES: n >= 1.
std::int64_t Allowed(double rate, std::int64_t n) {
  LC_DCHECK(n >= 1);
  return std::min(n - 1, static_cast<std::int64_t>(std::floor(rate * static_cast<double>(n) * (1 + 1e-12))));
}

double Share(std::int64_t part, std::int64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

struct Histogram {
  std::vector<std::int64_t> genuine = std::vector<std::int64_t>(kHalf, 0);
  std::vector<std::int64_t> impostor = std::vector<std::int64_t>(kHalf, 0);

  void Add(std::size_t place, bool same) { ++(same ? genuine : impostor)[place]; }
  std::int64_t Genuine() const { return Sum(genuine); }
  std::int64_t Impostor() const { return Sum(impostor); }

 private:
  static std::int64_t Sum(const std::vector<std::int64_t>& counts) {
    std::int64_t sum = 0;
    for (const std::int64_t count : counts) sum += count;
    return sum;
  }
};

// The place of the impostor with `allowed` others above, and the counts above the place.
struct Place {
  std::size_t place = 0;
  std::int64_t genuine_above = 0, impostor_above = 0;
};

// REQUIRES: more than `allowed` impostors.
Place FindPlace(const Histogram& histogram, std::int64_t allowed) {
  LC_DCHECK(histogram.Impostor() > allowed);
  Place found{kHalf - 1, 0, 0};
  while (found.place > 0 && found.impostor_above + histogram.impostor[found.place] <= allowed) {
    found.impostor_above += histogram.impostor[found.place];
    found.genuine_above += histogram.genuine[found.place];
    --found.place;
  }
  return found;
}

absl::Status CheckRates(const char* field, std::span<const double> rates, bool zero_allowed) {
  for (const double rate : rates) {
    if (rate >= 0 && rate < 1 && (zero_allowed || rate > 0)) continue;
    return InvalidField(field, StrCat(rate), zero_allowed ? "0 or more and below 1" : "above 0 and below 1");
  }
  return absl::OkStatus();
}

// The low halves of the scores in high halves with a threshold.
struct FineHistograms {
  explicit FineHistograms(std::span<const Place> places) : slot(kHalf, -1) {
    for (const Place& place : places) {
      if (slot[place.place] >= 0) continue;
      slot[place.place] = static_cast<int>(histograms.size());
      histograms.emplace_back();
    }
  }
  Histogram& Of(std::size_t place) { return histograms[static_cast<std::size_t>(slot[place])]; }

  std::vector<int> slot;  // histogram of each high half; -1 without a threshold
  std::vector<Histogram> histograms;
};

absl::StatusOr<Histogram> CoarseHistogram(const ScoreSource& source) {
  Histogram coarse;
  std::int64_t seen = 0;
  std::optional<std::int64_t> nan;
  source([&](std::span<const float> scores, std::span<const std::uint8_t> same) {
    for (std::size_t i = 0; i < scores.size(); ++i, ++seen) {
      if (std::isnan(scores[i])) {
        if (!nan.has_value()) nan = seen;
        continue;
      }
      coarse.Add(KeyOf(scores[i]) >> 16, same[i] != 0);
    }
  });
  if (nan.has_value()) return InvalidField(StrCat("score of pair ", *nan), "nan", "a number");
  return coarse;
}

}  // namespace

absl::StatusOr<VerificationFigures> VerifyPairs(const ScoreSource& source, std::span<const double> far_wanted) {
  LC_RETURN_IF_ERROR(CheckRates("far", far_wanted, /*zero_allowed=*/true));
  LC_ASSIGN_OR_RETURN(const Histogram coarse, CoarseHistogram(source));
  VerificationFigures figures;
  figures.genuine = coarse.Genuine();
  figures.impostor = coarse.Impostor();
  if (figures.genuine == 0) return InvalidField("genuine pairs", "0", "at least 1");
  if (figures.impostor == 0) return InvalidField("impostor pairs", "0", "at least 1");

  std::vector<Place> places;
  for (const double rate : far_wanted) places.push_back(FindPlace(coarse, Allowed(rate, figures.impostor)));
  FineHistograms fine(places);
  source([&](std::span<const float> scores, std::span<const std::uint8_t> same) {
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const std::uint32_t key = KeyOf(scores[i]);
      if (fine.slot[key >> 16] >= 0) fine.Of(key >> 16).Add(key & 0xffffu, same[i] != 0);
    }
  });
  for (std::size_t f = 0; f < far_wanted.size(); ++f) {
    const Place& high = places[f];
    const Histogram& histogram = fine.Of(high.place);
    if (histogram.Genuine() != coarse.genuine[high.place] || histogram.Impostor() != coarse.impostor[high.place]) {
      return Internal("verification: the source of scores gave other pairs the second time");
    }
    const Place low = FindPlace(histogram, Allowed(far_wanted[f], figures.impostor) - high.impostor_above);
    const std::uint32_t key = static_cast<std::uint32_t>(high.place << 16 | low.place);
    figures.points.push_back({far_wanted[f], ScoreOf(key),
                              Share(high.impostor_above + low.impostor_above, figures.impostor),
                              Share(high.genuine_above + low.genuine_above, figures.genuine)});
  }
  return figures;
}

namespace {

struct Best {
  float score = kAcceptAll;
  std::size_t index = std::numeric_limits<std::size_t>::max();

  bool Before(const Best& other) const { return score > other.score || (score == other.score && index < other.index); }
};

// The `keep` largest values of a stream.
class Largest {
 public:
  explicit Largest(std::size_t keep) : keep_(keep) {}
  void Add(float value) {
    if (heap_.size() < keep_) {
      heap_.push(value);
    } else if (keep_ > 0 && value > heap_.top()) {
      heap_.pop();
      heap_.push(value);
    }
  }
  // In descending order; empties the heap.
  std::vector<float> Take() {
    std::vector<float> values;
    for (; !heap_.empty(); heap_.pop()) values.push_back(heap_.top());
    std::reverse(values.begin(), values.end());
    return values;
  }

 private:
  const std::size_t keep_;
  std::priority_queue<float, std::vector<float>, std::greater<>> heap_;
};

std::int64_t CountAbove(std::span<const float> values, float threshold) {
  return std::count_if(values.begin(), values.end(), [&](float v) { return v > threshold; });
}

// The summary of the rows of scores.
struct Identified {
  std::vector<float> mates;         // best score of each mated probe's own subject
  std::vector<std::uint8_t> first;  // 1 where the own subject is ranked first
  std::vector<float> strangers;     // best score of each non-mated probe
  std::vector<float> other_pairs;   // largest other scores, descending; kAllOtherPairs only
};

absl::Status AddProbe(std::size_t probe, std::int64_t subject, std::span<const float> row,
                      std::span<const std::int64_t> gallery, Largest* largest, Identified* out) {
  Best mate, rival;
  bool mated = false;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (std::isnan(row[i])) return InvalidField(StrCat("scores[", probe, "][", i, "]"), "nan", "a number");
    const bool own = gallery[i] == subject;
    mated = mated || own;
    Best& best = own ? mate : rival;
    const Best here{row[i], i};
    if (here.Before(best)) best = here;
    if (own) continue;
    largest->Add(row[i]);
  }
  if (mated) {
    out->mates.push_back(mate.score);
    out->first.push_back(mate.Before(rival) ? 1 : 0);
  } else {
    out->strangers.push_back(rival.score);
  }
  return absl::OkStatus();
}

IdentificationPoint OpenSetPoint(double rate, const Identified& seen, std::span<const float> sorted_strangers) {
  const std::int64_t all = static_cast<std::int64_t>(sorted_strangers.size());
  IdentificationPoint point{rate, sorted_strangers[static_cast<std::size_t>(Allowed(rate, all))], 0, 0};
  point.fpir = Share(CountAbove(sorted_strangers, point.threshold), all);
  std::int64_t found = 0;
  for (std::size_t i = 0; i < seen.mates.size(); ++i) found += seen.first[i] != 0 && seen.mates[i] > point.threshold;
  point.tpir = Share(found, static_cast<std::int64_t>(seen.mates.size()));
  return point;
}

std::size_t PairsAllowed(double rate, std::int64_t probes) {
  return static_cast<std::size_t>(std::ceil(rate * static_cast<double>(probes) * (1 - 1e-12)));
}

IdentificationPoint AllPairsPoint(double rate, const Identified& seen) {
  const std::int64_t mated = static_cast<std::int64_t>(seen.mates.size());
  const std::size_t place = PairsAllowed(rate, mated);
  IdentificationPoint point{rate, kAcceptAll, 0, 0};
  if (place <= seen.other_pairs.size()) point.threshold = seen.other_pairs[place - 1];
  point.fpir = Share(CountAbove(seen.other_pairs, point.threshold), mated);
  point.tpir = Share(CountAbove(seen.mates, point.threshold), mated);
  return point;
}

}  // namespace

absl::StatusOr<IdentificationFigures> IdentifyProbes(const std::function<void(std::size_t, std::span<float>)>& fill,
                                                     std::span<const std::int64_t> probe_subjects,
                                                     std::span<const std::int64_t> gallery_subjects,
                                                     std::span<const double> fpir_wanted, Impostors impostors) {
  const bool open_set = impostors == Impostors::kNonMatedProbes;
  LC_RETURN_IF_ERROR(CheckRates("fpir", fpir_wanted, open_set));
  if (gallery_subjects.empty()) return InvalidField("gallery", "0 entries", "at least 1");
  double rate_max = 0;
  for (const double rate : fpir_wanted) rate_max = std::max(rate_max, rate);
  Largest largest(open_set ? 0 : PairsAllowed(rate_max, static_cast<std::int64_t>(probe_subjects.size())));
  Identified seen;
  std::vector<float> row(gallery_subjects.size());
  for (std::size_t probe = 0; probe < probe_subjects.size(); ++probe) {
    fill(probe, row);
    LC_RETURN_IF_ERROR(AddProbe(probe, probe_subjects[probe], row, gallery_subjects, &largest, &seen));
  }
  IdentificationFigures figures;
  figures.mated = static_cast<std::int64_t>(seen.mates.size());
  figures.non_mated = static_cast<std::int64_t>(seen.strangers.size());
  if (figures.mated == 0) return InvalidField("mated probes", "0", "at least 1 whose subject is in the gallery");
  if (open_set && figures.non_mated == 0) {
    return InvalidField("non-mated probes", "0", "at least 1 whose subject is not in the gallery");
  }
  std::sort(seen.strangers.begin(), seen.strangers.end(), std::greater<>());
  seen.other_pairs = largest.Take();
  for (const double rate : fpir_wanted) {
    figures.points.push_back(open_set ? OpenSetPoint(rate, seen, seen.strangers) : AllPairsPoint(rate, seen));
  }
  return figures;
}

}  // namespace lightcone
