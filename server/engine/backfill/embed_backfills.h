// The thread that embeds galleries anew from their stored inputs: a few items at a time, at the lowest priority and
// with encoders in processes of their own, so that queries neither wait behind it nor end with it.
// Threads: constructor and destructor belong to the owner; the rest runs in the thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
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
    std::unique_ptr<InputsEncoder> encoder;      // nullptr: none is needed now
    uint32_t generation = 0;                     // generation of the encoder
    absl::Time embedded = absl::InfinitePast();  // when the encoder was last asked
    int failures = 0;                            // consecutive failures of the encoder to start
    uint64_t starts = 0;                         // Backfill::starts when the failures were counted
  };

  // One turn of every collection; the pause until the next one.
  absl::Duration EmbedAll();
  // A side for each collection in service. The sides of dropped ones end.
  void RefreshSides();
  // Whether a failure delays the next try. What a start of the backfill changed is tried at once. A clock that was set
  // back makes nobody wait longer.
  static bool MustWait(const Served& served, Side& side, absl::Time now);
  // A few items of a collection's backfill; whether there are more.
  absl::StatusOr<bool> EmbedSome(const Served& served, Side& side);
  absl::StatusOr<bool> EmbedSafely(const Served& served, Side& side);  // What it throws becomes its status.
  // Items `begin` .. of a turn, as many as their inputs' bytes allow; the end of them.
  absl::StatusOr<size_t> EmbedFrom(const Served& served, Side& side, const GenerationRecord& generation,
                                   const EmbedTurn& turn, size_t begin, std::vector<AsideItem>* failed);
  // Inputs as they are stored, in a process beside this one where there is a program for it. Whatever an input of them
  // is refused for there is the input's fault.
  absl::StatusOr<EmbeddedInputs> EmbedStored(const Served& served, Side& side, const GenerationRecord& generation,
                                             const EmbedTurn& turn, const std::vector<std::string>& inputs);
  void NoteEncoder(const Served& served, Side& side, const EmbedTurn& turn, const absl::Status& outcome);

  Context& context_;
  const WriteVectors write_;
  std::map<uint32_t, Side> sides_;  // by the collection's number
  RepeatingThread thread_;          // the last member: it uses the others
};

}  // namespace lightcone::server
