#include "tests/system/rollout_operator.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/status.h"

namespace lightcone {
namespace {

constexpr size_t kLiveMax = 4;         // generations that are not retired
constexpr double kAtOnce = 1'000'000;  // embed_rate: as fast as it goes
constexpr char kReason[] = "a rollout under fire";

v1::BackfillState StateOf(const Line& line) {
  const Line::Backfill& backfill = line.backfill;
  if (backfill.generation == 0) return v1::BACKFILL_STATE_UNSPECIFIED;
  if (backfill.generation != line.active) return v1::BACKFILL_STATE_STOPPED;
  return backfill.paused ? v1::BACKFILL_STATE_PAUSED : v1::BACKFILL_STATE_RUNNING;
}

std::vector<v1::AuditEntry> AuditOf(client::Client& client, const std::string& request_id) {
  v1::AuditRequest request;
  request.set_collection(kRollout);
  const auto answer = client.Audit(request);
  EXPECT_TRUE(answer.ok()) << answer.status();
  std::vector<v1::AuditEntry> found;
  if (!answer.ok()) return found;
  for (const v1::AuditEntry& entry : answer->entries()) {
    if (entry.request_id() == request_id) found.push_back(entry);
  }
  return found;
}

Line::Backfill BackfillNow(client::Client& client) {
  v1::StatusRequest request;
  request.set_collection(kRollout);
  const auto status = client.BackfillStatus(request);
  EXPECT_TRUE(status.ok()) << status.status();
  if (!status.ok() || status->state() == v1::BACKFILL_STATE_UNSPECIFIED) return {};
  return {status->generation(), status->state() == v1::BACKFILL_STATE_PAUSED, status->embed_rate()};
}

}  // namespace

std::string NameOf(Step step) {
  static const std::map<Step, std::string> names = {{Step::kRegister, "register"}, {Step::kActivate, "activate"},
                                                    {Step::kRollback, "rollback"}, {Step::kStart, "start"},
                                                    {Step::kPause, "pause"},       {Step::kValidate, "validate"},
                                                    {Step::kRetire, "retire"}};
  return names.at(step);
}

std::vector<uint32_t> Line::Live() const {
  std::vector<uint32_t> live;
  for (uint32_t g = 1; g <= last; ++g) {
    if (!retired.contains(g)) live.push_back(g);
  }
  return live;
}

void Line::Apply(const OperatorCall& call) {
  switch (call.step) {
    case Step::kRegister:
      last = call.generation;
      break;
    case Step::kActivate:
      if (active != 0 && active != call.generation) earlier.push_back(active);
      active = call.generation;
      break;
    case Step::kRollback:
      active = call.generation;
      earlier.pop_back();
      break;
    case Step::kStart:
      backfill = {active, false, call.embed_rate};
      break;
    case Step::kPause:
      backfill.paused = true;
      break;
    case Step::kValidate:
      break;
    case Step::kRetire:
      retired.insert(call.generation);
      std::erase(earlier, call.generation);
      break;
  }
  // Two in a row that are the same, as a retirement leaves them, are one step back.
  earlier.erase(std::unique(earlier.begin(), earlier.end()), earlier.end());
  while (!earlier.empty() && earlier.back() == active) earlier.pop_back();
}

OperatorCall RolloutOperator::RollbackCall() const {
  OperatorCall call;
  call.step = Step::kRollback;
  call.generation = line_.earlier.back();
  return call;
}

OperatorCall RolloutOperator::NextCall() {
  const std::vector<uint32_t> live = line_.Live();
  OperatorCall call;
  const auto any = [&] { return live[random_() % live.size()]; };
  const uint64_t dice = random_() % 100;
  if (live.size() < kLiveMax) {
    call.step = Step::kRegister;
    call.generation = line_.last + 1;
  } else if (dice < 22) {
    call.step = Step::kActivate;
    call.generation =
        line_.active == live.back() ? live.back() : *std::upper_bound(live.begin(), live.end(), line_.active);
    call.force = random_() % 4 != 0;
  } else if (dice < 30) {
    call.step = Step::kActivate;
    call.generation = any();
  } else if (dice < 46 && !line_.earlier.empty()) {
    call = RollbackCall();
  } else if (dice < 70) {
    call.step = Step::kStart;
    call.generation = line_.active;
    call.embed_rate = random_() % 4 == 0 ? 0 : kAtOnce;
  } else if (dice < 75 && line_.backfill.generation == line_.active && !line_.backfill.paused) {
    call.step = Step::kPause;
  } else if (dice < 82) {
    call.step = Step::kValidate;
    call.generation = any();
  } else {
    call.step = Step::kRetire;
    call.generation = random_() % 4 == 0 ? any() : live.front();
  }
  return call;
}

void RolloutOperator::Run(const std::string& address) {
  const auto client = ClientAt(address);
  while (world_->meter.GoOn(static_cast<int64_t>(2 + random_() % 12))) {
    const OperatorCall call = NextCall();
    world_->meter.OperatorSends();
    const absl::Status status = Send(*client, call);
    if (absl::IsUnavailable(status)) return;
    const bool may_refuse = call.step == Step::kRetire || (call.step == Step::kActivate && !call.force);
    EXPECT_TRUE(status.ok() || (may_refuse && absl::IsFailedPrecondition(status))) << NameOf(call.step) << status;
  }
}

absl::Status RolloutOperator::Send(client::Client& client, const OperatorCall& call) {
  const absl::Status status = Issue(client, call);
  if (status.ok()) {
    line_.Apply(call);
    Publish();
    ++done_[call.step];
  } else if (absl::IsUnavailable(status)) {
    cut_off_ = call;
    ++cut_off_counts_[call.step];
  } else {
    ++refused_[call.step];
  }
  return status;
}

void RolloutOperator::Publish() {
  world_->serving = line_.active;
  world_->newest = line_.last;
}

absl::Status RolloutOperator::Issue(client::Client& client, const OperatorCall& call) {
  const auto fill = [&](auto request) {
    request.set_collection(kRollout);
    request.set_request_id(call.request_id);
    return request;
  };
  switch (call.step) {
    case Step::kRegister: {
      const auto made = client.RegisterGeneration(fill(world_->content.RegistrationOf(call.generation)));
      EXPECT_TRUE(!made.ok() || made->generation().generation() == call.generation) << made->ShortDebugString();
      return made.status();
    }
    case Step::kActivate:
      return Activate(client, call);
    case Step::kRollback:
      return Rollback(client, call);
    case Step::kStart: {
      v1::BackfillStartRequest request = fill(v1::BackfillStartRequest());
      request.set_embed_rate(call.embed_rate);
      return client.StartBackfill(request).status();
    }
    case Step::kPause:
      return client.PauseBackfill(fill(v1::PauseRequest())).status();
    case Step::kValidate: {
      v1::ValidateRequest request = fill(v1::ValidateRequest());
      request.set_generation(call.generation);
      request.set_tolerance(1);
      return client.ValidateGeneration(request).status();
    }
    case Step::kRetire: {
      v1::RetireRequest request = fill(v1::RetireRequest());
      request.set_generation(call.generation);
      request.set_reason(kReason);
      return client.RetireGeneration(request).status();
    }
  }
  return absl::InternalError("no such step");
}

absl::Status RolloutOperator::Activate(client::Client& client, const OperatorCall& call) {
  v1::ActivateRequest request;
  request.set_collection(kRollout);
  request.set_request_id(call.request_id);
  request.set_generation(call.generation);
  request.set_force(call.force);
  request.set_reason(kReason);
  const auto answer = client.ActivateGeneration(request);
  EXPECT_TRUE(!answer.ok() || answer->generation().generation() == call.generation) << answer->ShortDebugString();
  return answer.status();
}

absl::Status RolloutOperator::Rollback(client::Client& client, const OperatorCall& call) {
  v1::RollbackRequest request;
  request.set_collection(kRollout);
  request.set_request_id(call.request_id);
  request.set_force(true);
  request.set_reason(kReason);
  const auto answer = client.RollbackGeneration(request);
  EXPECT_TRUE(!answer.ok() || answer->generation().generation() == call.generation) << answer->ShortDebugString();
  return answer.status();
}

// What is there is either as before the call or as after it.
bool RolloutOperator::TookPlace(client::Client& client, const OperatorCall& call) {
  switch (call.step) {
    case Step::kRegister: {
      v1::GenerationsListRequest request;
      request.set_collection(kRollout);
      const auto list = client.ListGenerations(request);
      EXPECT_TRUE(list.ok()) << list.status();
      return list.ok() && static_cast<uint32_t>(list->generations_size()) == call.generation;
    }
    case Step::kStart:
    case Step::kPause: {
      Line after = line_;
      after.Apply(call);
      return BackfillNow(client) == after.backfill;
    }
    case Step::kValidate:
      return true;  // a job more or less
    default:
      return !AuditOf(client, call.request_id).empty();
  }
}

void RolloutOperator::ExpectLine(client::Client& client) {
  v1::CollectionsGetRequest get;
  get.set_name(kRollout);
  const auto collection = client.GetCollection(get);
  ASSERT_TRUE(collection.ok()) << collection.status();
  EXPECT_EQ(collection->collection().active_generation(), line_.active);
  v1::GenerationsListRequest request;
  request.set_collection(kRollout);
  const auto list = client.ListGenerations(request);
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(static_cast<uint32_t>(list->generations_size()), line_.last);
  for (const v1::GenerationInfo& g : list->generations()) {
    EXPECT_EQ(g.state() == v1::GENERATION_STATE_RETIRED, line_.retired.contains(g.generation())) << g.generation();
    EXPECT_EQ(g.state() == v1::GENERATION_STATE_ACTIVE, line_.active == g.generation()) << g.generation();
  }
  v1::StatusRequest status;
  status.set_collection(kRollout);
  const auto backfill = client.BackfillStatus(status);
  ASSERT_TRUE(backfill.ok()) << backfill.status();
  v1::BackfillState state = backfill->state();
  if (state == v1::BACKFILL_STATE_ORDERING || state == v1::BACKFILL_STATE_DONE) state = v1::BACKFILL_STATE_RUNNING;
  EXPECT_EQ(state, StateOf(line_)) << backfill->ShortDebugString();
  if (line_.backfill.generation == 0) return;
  EXPECT_EQ(backfill->generation(), line_.backfill.generation);
  EXPECT_EQ(backfill->embed_rate(), line_.backfill.embed_rate);
}

void RolloutOperator::Settle(client::Client& client) {
  if (!cut_off_) return ExpectLine(client);
  const OperatorCall call = *cut_off_;
  cut_off_.reset();
  SCOPED_TRACE(StrCat("cut off: ", NameOf(call.step), " ", call.generation, ", request ", call.request_id));
  const bool applied = TookPlace(client, call);
  if (applied) line_.Apply(call);
  cut_off_applied_ += applied;
  Publish();
  ExpectLine(client);
  if (random_() % 2 == 0) SendAgain(client, call, applied);
}

void RolloutOperator::SendAgain(client::Client& client, const OperatorCall& call, bool applied) {
  // What a backfill's start or pause does follows from its state, which its repetition may find changed.
  if (call.step == Step::kValidate || call.step == Step::kPause || call.step == Step::kStart) return;
  const absl::Status status = Issue(client, call);
  const bool may_refuse = call.step == Step::kRetire || (call.step == Step::kActivate && !call.force);
  if (applied) {
    EXPECT_TRUE(status.ok()) << "acknowledged at last, it took place before: " << status;
  } else {
    EXPECT_TRUE(status.ok() || (may_refuse && absl::IsFailedPrecondition(status))) << status;
    if (status.ok()) line_.Apply(call);
  }
  Publish();
  ExpectLine(client);
  if (call.step == Step::kRegister || !status.ok()) return;
  EXPECT_EQ(AuditOf(client, call.request_id).size(), 1u) << "a request is in the audit log once";
}

}  // namespace lightcone
