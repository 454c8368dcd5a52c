// Notices, vector by vector, that a stream of embeddings does not come from the model that a profile was learnt from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "stats/embedding_profile.h"

namespace lightcone {

// What an alarm is about. Streams that only change their subject keep directions and lengths, whatever the subject.
enum class ForeignReason {
  kDirections,      // most directions are those of no vectors of the model: another model, layer, seed or rotation
  kSomeDirections,  // directions of one of twenty or more
  kLengths,         // lengths that the model never gives, of one of twenty or more: normalised, or no longer so
  kPlace,           // all places moved at once: another prompt prefix, a sister of the model, or a sudden new subject
};
inline constexpr std::size_t kForeignReasons = 4;

// Sequential tests, each of which needs at most 100 foreign vectors. A vector that came among the last 128 already is
// passed over, so that one that is repeated proves nothing. Threads: one at a time.
class ForeignStream {
 public:
  // Whether the vector by itself is one for which an alarm about single vectors is on, so odd that right ones hardly
  // are.
  bool IsForeign(const EmbeddingProfile::Look& look) const;
  // Whether it is rather a foreign one than a right one; a single one says little.
  static bool IsDoubtful(const EmbeddingProfile::Look& look);

  // False: it was passed over. `digest`: hash of the vector. `by_time`: it comes when it was made, so that its place
  // counts; false where somebody has ordered the vectors.
  bool Note(const EmbeddingProfile::Look& look, std::size_t axes, uint64_t digest, bool by_time = true);

  bool alarm(ForeignReason reason) const { return alarms_[static_cast<std::size_t>(reason)]; }
  const std::array<bool, kForeignReasons>& alarms() const { return alarms_; }
  bool any_alarm() const;
  int64_t noted() const { return noted_; }  // vectors, without those that were passed over

 private:
  // Evidence that one of twenty vectors or more is odd where one of five hundred is by nature (Page's CUSUM, Biometrika
  // 1954): about 5 among 100.
  class RareEvents {
   public:
    void Note(bool odd);
    bool high() const;
    bool low() const;

   private:
    double evidence_ = 0;
  };
  // Sums of places of kBlock vectors.
  struct Block {
    std::array<float, EmbeddingProfile::kAxesMax> sums{}, squares{};
    int vectors = 0;
  };
  struct Window {
    std::array<float, EmbeddingProfile::kAxesMax> mean{}, variance{};
  };
  bool WasSeen(uint64_t digest);
  void NoteDirection(const EmbeddingProfile::Look& look);
  void EndBlock(std::size_t axes);
  void LearnPlaces(std::size_t axes);
  // Mean and variance of kBlocksAWindow blocks from `first` on.
  static Window WindowOf(const std::deque<Block>& blocks, std::size_t first, std::size_t axes);
  // By how much a window's mean lies away from the history's, beyond chance.
  double Shift(const Window& window, std::size_t axes) const;
  bool& alarm_of(ForeignReason reason) { return alarms_[static_cast<std::size_t>(reason)]; }

  std::array<bool, kForeignReasons> alarms_{};
  int64_t noted_ = 0;
  std::array<uint64_t, 128> digests_{};
  std::size_t next_digest_ = 0;

  std::deque<double> strangeness_;  // strangeness of the last vectors
  double strangeness_sum_ = 0;
  RareEvents directions_, lengths_;

  Block block_;                        // the block that is being filled
  std::deque<Block> recent_, blocks_;  // the newest blocks, and those before them outside of alarms; the newest last
  Window history_;                     // mean and variance of the windows of blocks_
  double shift_max_ = 0, spread_ = 0;  // shift that is an alarm, and variance of the history's windows
  int64_t shifted_ = 0;                // vectors since the alarm for places
};

}  // namespace lightcone
