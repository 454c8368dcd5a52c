// An operator who registers, activates, rolls back, backfills, validates and retires without rest, and what the server
// must be like after each acknowledged call. A call that a kill cuts off is all or nothing: Settle says which.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/client.h"
#include "tests/system/rollout_actors.h"

namespace lightcone {

enum class Step { kRegister, kActivate, kRollback, kStart, kPause, kValidate, kRetire };
std::string NameOf(Step step);

struct OperatorCall {
  Step step = Step::kRegister;
  uint32_t generation = 0;  // register: the next one; rollback: the one that it leads to; start: the one that serves
  bool force = true;        // activate
  double embed_rate = 0;    // start
  std::string request_id = client::NewRequestId();
};

// What the server acknowledged, and is held to.
struct Line {
  uint32_t last = 0, active = 0;
  std::vector<uint32_t> earlier;  // that served before, the latest last: the way of rollbacks
  std::set<uint32_t> retired;
  struct Backfill {
    uint32_t generation = 0;  // 0: never started
    bool paused = false;
    double embed_rate = 0;
    bool operator==(const Backfill&) const = default;
  } backfill;

  std::vector<uint32_t> Live() const;  // ascending
  void Apply(const OperatorCall& call);
};

class RolloutOperator {
 public:
  RolloutOperator(uint64_t seed, RolloutWorld* world) : random_(seed), world_(world) {}

  // One step after another, each some writes behind the one before.
  void Run(const std::string& address);
  // UNAVAILABLE: the server is gone, and the call is cut off. FAILED_PRECONDITION: refused.
  absl::Status Send(client::Client& client, const OperatorCall& call);
  OperatorCall RollbackCall() const;
  // After a restart: whether what was cut off took place, by the audit log and what serves; the line goes by that.
  // Then, every other time, the same call comes again under its request id, and takes place once in all.
  void Settle(client::Client& client);

  const Line& line() const { return line_; }
  const std::map<Step, int64_t>& done() const { return done_; }
  const std::map<Step, int64_t>& refused() const { return refused_; }
  const std::map<Step, int64_t>& cut_off() const { return cut_off_counts_; }
  int64_t cut_off_applied() const { return cut_off_applied_; }

 private:
  OperatorCall NextCall();
  absl::Status Issue(client::Client& client, const OperatorCall& call);
  absl::Status Activate(client::Client& client, const OperatorCall& call);
  absl::Status Rollback(client::Client& client, const OperatorCall& call);
  void Publish();
  bool TookPlace(client::Client& client, const OperatorCall& call);
  void ExpectLine(client::Client& client);
  void SendAgain(client::Client& client, const OperatorCall& call, bool applied);

  std::mt19937_64 random_;
  RolloutWorld* const world_;
  Line line_;
  std::optional<OperatorCall> cut_off_;
  std::map<Step, int64_t> done_, refused_, cut_off_counts_;
  int64_t cut_off_applied_ = 0;
};

}  // namespace lightcone
