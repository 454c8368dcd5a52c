// Everything that a collection holds, read from a server, and what is asked of it after a restart.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/system/rollout_operator.h"

namespace lightcone {

struct StoredContent {
  Version version = 0;
  std::vector<uint32_t> generations;  // ascending
};
using Gallery = std::map<uint64_t, StoredContent>;

// Whether the server may be at work on its own: a retirement that gives space back, a backfill that embeds.
enum class Work { kUnderWay, kEnded };

class RolloutChecks {
 public:
  // `items`: ids are 0 .. items - 1.
  RolloutChecks(RolloutWorld* world, const Line* line, uint64_t items) : world_(world), line_(line), items_(items) {}

  // Scroll and Get say the same: of every item one content, with its own vector, by what embedded it.
  void ReadGallery(client::Client& client, Work work);
  const Gallery& gallery() const { return gallery_; }
  // What was acknowledged of the content that is there is embedded still.
  void ExpectEmbeddings();
  // An exact search for everything by each generation that is not retired: each item exactly once, with its newest
  // content, by the newest generation that such a view may serve; and nothing of those that only newer ones embedded.
  void ExpectViews(client::Client& client, Work work);
  void ExpectView(client::Client& client, uint32_t generation, bool as_active, Work work);

  // Until every job has ended and the server has embedded what it can, with no call but looks. Retirements succeed.
  // How many jobs had not ended.
  int AwaitOwnWork(client::Client& client);
  // Nothing in the answers of the server is left of a retired generation.
  void ExpectRetiredGone(client::Client& client);

 private:
  void ExpectHit(const v1::Hit& hit, uint32_t view, Work work);
  bool Retired(uint32_t generation) const { return line_->retired.contains(generation); }
  std::vector<uint32_t> InUse(const std::vector<uint32_t>& generations) const;
  bool EmbedsItself(client::Client& client);

  RolloutWorld* const world_;
  const Line* const line_;
  const uint64_t items_;
  Gallery gallery_;
};

}  // namespace lightcone
