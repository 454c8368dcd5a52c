#include "stats/foreign_stream.h"

#include <algorithm>
#include <cmath>

#include "base/dcheck.h"

namespace lightcone {
namespace {

// Thresholds of strangeness, from pairs of text models and their rotations: rows of the model itself lie around 0, with
// at most 8 of 100 above 0.5 and 3 above 0.75 in the oddest subject; of another model's rows 99 of 100 lie above 0.55.
constexpr double kForeign = 0.5;
constexpr std::size_t kMeanOver = 50, kMeanOverMin = 25;  // vectors
constexpr double kMeanHigh = 0.4, kMeanLow = 0.25;

constexpr double kNatural = 0.002, kSought = 0.04;
constexpr double kEvidenceHigh = 9.5, kEvidenceMax = 12.5, kEvidenceLow = 4.75;

constexpr int kBlock = 25;
constexpr std::size_t kBlocksAWindow = 3, kWindows = 60;
constexpr std::size_t kHistory = kBlocksAWindow * kWindows;  // blocks
constexpr double kShiftDeviations = 15, kShiftMin = 1.2;     // deviations of the history's shifts; the least alarm
constexpr double kSpreadMin = 0.5;                           // A window about one subject is narrower.
constexpr int64_t kShiftKeptFor = 10'000;  // vectors after which another place has become the stream's own

}  // namespace

bool ForeignStream::IsForeign(const EmbeddingProfile::Look& look) const {
  const bool directions = alarm(ForeignReason::kDirections) || alarm(ForeignReason::kSomeDirections);
  return (directions && look.rare) || (alarm(ForeignReason::kLengths) && look.odd_length);
}

bool ForeignStream::IsDoubtful(const EmbeddingProfile::Look& look) { return look.strangeness > kForeign; }

bool ForeignStream::any_alarm() const { return std::find(alarms_.begin(), alarms_.end(), true) != alarms_.end(); }

void ForeignStream::RareEvents::Note(bool odd) {
  static const double up = std::log(kSought / kNatural), down = std::log((1 - kSought) / (1 - kNatural));
  evidence_ = std::clamp(evidence_ + (odd ? up : down), 0.0, kEvidenceMax);
}
bool ForeignStream::RareEvents::high() const { return evidence_ > kEvidenceHigh; }
bool ForeignStream::RareEvents::low() const { return evidence_ < kEvidenceLow; }

bool ForeignStream::WasSeen(uint64_t digest) {
  if (std::find(digests_.begin(), digests_.end(), digest) != digests_.end()) return true;
  digests_[next_digest_] = digest;
  next_digest_ = (next_digest_ + 1) % digests_.size();
  return false;
}

bool ForeignStream::Note(const EmbeddingProfile::Look& look, std::size_t axes, uint64_t digest, bool by_time) {
  LC_DCHECK(axes >= 1 && axes <= EmbeddingProfile::kAxesMax);
  if (WasSeen(digest)) return false;
  ++noted_;
  NoteDirection(look);
  lengths_.Note(look.odd_length);
  bool& lengths = alarm_of(ForeignReason::kLengths);
  lengths = lengths ? !lengths_.low() : lengths_.high();
  // Vectors that other alarms are about have no place among this model's, and are no part of the history.
  const bool others = alarm(ForeignReason::kDirections) || alarm(ForeignReason::kSomeDirections) || lengths;
  if (others) block_ = {};
  if (others || !by_time) return true;
  for (std::size_t j = 0; j < axes; ++j) {
    block_.sums[j] += look.place[j];
    block_.squares[j] += look.place[j] * look.place[j];
  }
  if (++block_.vectors == kBlock) EndBlock(axes);
  return true;
}

void ForeignStream::NoteDirection(const EmbeddingProfile::Look& look) {
  const double bounded = std::clamp(look.strangeness, 0.0, 1.0);
  strangeness_.push_back(bounded);
  strangeness_sum_ += bounded;
  if (strangeness_.size() > kMeanOver) {
    strangeness_sum_ -= strangeness_.front();
    strangeness_.pop_front();
  }
  const double mean = strangeness_sum_ / static_cast<double>(strangeness_.size());
  bool& most = alarm_of(ForeignReason::kDirections);
  most = strangeness_.size() >= kMeanOverMin && mean > (most ? kMeanLow : kMeanHigh);
  directions_.Note(look.rare);
  bool& some = alarm_of(ForeignReason::kSomeDirections);
  some = some ? !directions_.low() : directions_.high();
}

ForeignStream::Window ForeignStream::WindowOf(const std::deque<Block>& blocks, std::size_t first, std::size_t axes) {
  Window window;
  constexpr float kVectors = kBlock * kBlocksAWindow;
  for (std::size_t j = 0; j < axes; ++j) {
    float sum = 0, squares = 0;
    for (std::size_t b = first; b < first + kBlocksAWindow; ++b) {
      sum += blocks[b].sums[j];
      squares += blocks[b].squares[j];
    }
    window.mean[j] = sum / kVectors;
    window.variance[j] = std::max(0.0f, squares / kVectors - window.mean[j] * window.mean[j]);
  }
  return window;
}

double ForeignStream::Shift(const Window& window, std::size_t axes) const {
  double shift = 0;
  for (std::size_t j = 0; j < axes; ++j) {
    const double gap = double{window.mean[j]} - double{history_.mean[j]};
    shift += gap * gap - double{history_.variance[j]} / (kBlock * kBlocksAWindow);  // less what chance gives
  }
  return shift;
}

void ForeignStream::LearnPlaces(std::size_t axes) {
  std::array<Window, kWindows> windows;
  history_ = {};
  spread_ = 0;
  for (std::size_t w = 0; w < kWindows; ++w) {
    const Window& window = windows[w] = WindowOf(blocks_, w * kBlocksAWindow, axes);
    for (std::size_t j = 0; j < axes; ++j) {
      history_.mean[j] += window.mean[j] / kWindows;
      history_.variance[j] += window.variance[j] / kWindows;
    }
  }
  for (std::size_t j = 0; j < axes; ++j) spread_ += double{history_.variance[j]};
  double sum = 0, squares = 0;
  for (const Window& window : windows) {
    const double shift = Shift(window, axes);
    sum += shift;
    squares += shift * shift;
  }
  const double mean = sum / kWindows, deviation = std::sqrt(std::max(0.0, squares / kWindows - mean * mean));
  shift_max_ = std::max(kShiftMin, mean + kShiftDeviations * deviation);
}

void ForeignStream::EndBlock(std::size_t axes) {
  bool& place = alarm_of(ForeignReason::kPlace);
  recent_.push_back(block_);
  block_ = {};
  if (recent_.size() > kBlocksAWindow) {
    if (!place) blocks_.push_back(recent_.front());  // What comes during an alarm is no part of the history.
    recent_.pop_front();
  }
  if (blocks_.size() > kHistory) blocks_.pop_front();
  if (blocks_.size() < kHistory) return;
  if (!place) LearnPlaces(axes);
  const Window now = WindowOf(recent_, 0, axes);
  const double shift = Shift(now, axes);
  if (place) {
    shifted_ += kBlock;
    place = shift > shift_max_ / 2 && shifted_ < kShiftKeptFor;
    if (shifted_ >= kShiftKeptFor) blocks_.clear();
    return;
  }
  double spread = 0;
  for (std::size_t j = 0; j < axes; ++j) spread += double{now.variance[j]};
  place = shift > shift_max_ && spread > kSpreadMin * spread_;
  shifted_ = 0;
}

}  // namespace lightcone
