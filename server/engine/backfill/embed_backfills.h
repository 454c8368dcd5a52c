// The thread that embeds galleries anew from their stored inputs: turns of one to three seconds, at a low priority and
// with encoders in processes of their own or elsewhere, so that queries neither wait behind it nor end with it.
// Threads: constructor and destructor belong to the owner; the rest runs in the thread, and EmbedBatch and what it
// calls in as many as the encoder serves at once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/engine/api/types.h"
#include "server/engine/backfill/backfill.h"
#include "server/engine/backfill/pace.h"
#include "server/engine/embed/inputs_encoder.h"
#include "server/engine/services/context.h"
#include "server/engine/services/repeating_thread.h"

namespace lightcone::server {

class EmbedBackfills {
 public:
  // Writes vectors that were embedded by the generation, as WriteCalls::WriteVectors does.
  using WriteVectors = std::function<absl::StatusOr<WriteResult>(
      const Served& served, const GenerationRecord& generation, UpsertBatch batch, const CallContext& context)>;

  // `context` must outlive it.
  EmbedBackfills(Context& context, WriteVectors write);

 private:
  // What the thread keeps for a collection.
  struct Side {
    std::weak_ptr<const Served> served;  // A drop does not wait for the turns of others.
    Pace pace;
    absl::Time next_try = absl::InfinitePast();
    bool busy = false;                           // whether the last turn had items
    std::unique_ptr<InputsEncoder> encoder;      // nullptr: none is needed now
    uint32_t generation = 0;                     // generation of the encoder
    int64_t rounds = 1;                          // batches that each caller of the encoder has in a turn
    absl::Time embedded = absl::InfinitePast();  // time when the encoder was last asked
    int failures = 0;                            // consecutive failures of the encoder to start
    uint64_t starts = 0;                         // Backfill::starts when the failures were counted

    // After a turn that should take the time `wanted`. `may_grow`: it had as many items as it may have, and more would
    // be allowed.
    void AdaptRounds(absl::Duration took, absl::Duration wanted, bool ok, bool may_grow);
  };
  // A turn as the encoder's callers see it, and what comes of it.
  struct Work {
    const Served& served;
    InputsEncoder& encoder;
    const GenerationRecord& generation;
    const EmbedTurn& turn;
  };
  struct Outcome {
    absl::Mutex mu;
    absl::Status error ABSL_GUARDED_BY(mu);  // the first
    std::optional<absl::Status> encoder
        ABSL_GUARDED_BY(mu);  // the encoder's own first error, or OK; nullopt: not asked
    std::vector<AsideItem> aside ABSL_GUARDED_BY(mu);
    bool works ABSL_GUARDED_BY(mu) = false;               // The encoder gave an input its vector.
    std::vector<AsideItem> doubtful ABSL_GUARDED_BY(mu);  // aside where it works; else it is at fault
    absl::Status doubt ABSL_GUARDED_BY(mu);               // reason why the first of these got none
  };

  // One turn of every collection; the pause until the next one.
  absl::Duration EmbedAll();
  // A side for each collection in service. The sides of dropped ones end.
  void RefreshSides();
  // Whether a failure delays the next try. What a start of the backfill changed is tried at once. A clock that was set
  // back makes nobody wait longer.
  static bool MustWait(const Served& served, Side& side, absl::Time now);
  // One turn of a collection, unless a failure delays it; whether it had items. `alone`: no other collection has any.
  bool EmbedSide(Side& side, bool alone);
  // A few items of a collection's backfill; whether there are more. `alone`: no other collection waits for a turn.
  absl::StatusOr<bool> EmbedSome(const Served& served, Side& side, bool alone);
  absl::StatusOr<bool> EmbedSafely(const Served& served, Side& side, bool alone);  // What it throws is its status.
  // The items of a turn, by as many callers as the encoder serves at once. The first error.
  absl::Status EmbedItems(const Served& served, Side& side, const GenerationRecord& generation, const EmbedTurn& turn,
                          std::vector<AsideItem>* failed);
  // Items `begin` .. `end` of it; whether the others are worth a try. What it throws becomes its status.
  bool EmbedBatch(const Work& work, size_t begin, size_t end, Outcome* outcome);
  // Items `begin` .. `until` of it, as many as their inputs' bytes allow; the end of them.
  absl::StatusOr<size_t> EmbedFrom(const Work& work, size_t begin, size_t until, Outcome* outcome);
  // Inputs as they are stored. Whatever an input of them is refused for there is the input's fault.
  absl::StatusOr<EmbeddedInputs> EmbedStored(const Work& work, const std::vector<std::string>& inputs,
                                             Outcome* outcome) const;
  // `works`: some inputs of the turn got their vectors.
  void NoteEncoder(const Served& served, Side& side, const EmbedTurn& turn, const absl::Status& outcome, bool works);

  Context& context_;
  const WriteVectors write_;
  std::map<uint32_t, Side> sides_;  // by the collection's number
  RepeatingThread thread_;          // the last member: it uses the others
};

}  // namespace lightcone::server
