// Probe sets, canaries, trainings and jobs on the wire.
#include <atomic>

#include "fake_engine.h"
#include "wire_fixture.h"

namespace lightcone::server {
namespace {

using grpc::StatusCode;

class Rollout : public WireTest {
 protected:
  static v1::PutProbesRequest ProbesOf(const std::string& item) {
    v1::PutProbesRequest request;
    request.set_collection("gallery");
    request.set_name("daily");
    v1::Probe* probe = request.add_probes();
    v1::ProbeVector* vector = probe->add_vectors();
    vector->set_generation(1);
    for (const float value : {0.0f, 1.0f, 2.0f, 3.0f}) vector->mutable_vector()->mutable_floats()->add_values(value);
    probe->add_relevant()->set_name(item);
    return request;
  }
  grpc::Status Put(const v1::PutProbesRequest& request, v1::PutProbesResponse* response) {
    grpc::ClientContext context;
    return generations_->PutProbes(&context, request, response);
  }
};

TEST_F(Rollout, ProbesArePutListedAndRefusedByField) {
  Serve();
  MakeGallery("gallery");
  ASSERT_TRUE(Upsert(Batch("gallery", {"a", "b"})).ok());
  v1::PutProbesResponse put;
  const grpc::Status status = Put(ProbesOf("a"), &put);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(put.probes().probes(), 1u);
  EXPECT_EQ(put.probes().vectors(0).generation(), 1u);
  grpc::ClientContext context;
  v1::ListProbesRequest list;
  list.set_collection("gallery");
  v1::ListProbesResponse listed;
  ASSERT_TRUE(generations_->ListProbes(&context, list, &listed).ok());
  EXPECT_EQ(listed.probes_size(), 1);
  EXPECT_THAT(Put(ProbesOf("nobody"), &put), Fails(StatusCode::NOT_FOUND, "1 of the 1 items"));
  v1::PutProbesRequest bad = ProbesOf("a");
  bad.mutable_probes(0)->mutable_vectors(0)->mutable_vector()->set_f32_le("abc");
  EXPECT_THAT(Put(bad, &put), Fails(StatusCode::INVALID_ARGUMENT, "probes[0].vectors[0].vector.f32_le"));
  bad = ProbesOf("a");
  bad.mutable_probes(0)->mutable_relevant(0)->Clear();
  EXPECT_THAT(Put(bad, &put), Fails(StatusCode::INVALID_ARGUMENT, "probes[0].relevant[0]"));
  bad = ProbesOf("a");
  bad.mutable_probes(0)->mutable_label();
  EXPECT_THAT(Put(bad, &put), Fails(StatusCode::INVALID_ARGUMENT, "probes[0].label"));
}

// A pair that passes, with a calibration, one that was not found, and both queries.
PairReport CalibratedPair() {
  PairReport pair;
  pair.item_generation = 1;
  pair.verdict = Verdict::kPassed;
  pair.ways.resize(3);
  CalibrationReport& found = pair.ways[0].calibration.emplace();
  found.map = {0.5, 1.25};
  found.cmc1_gain = {0.1, 0.05, 0.2, 60};
  found.map_gain = {0.3, 0.25, 0.4, 60};
  found.mixture = {{0.25, 0.5, 0.75}};
  found.wins = found.dips = true;
  pair.ways[1].calibration.emplace().none_because = "too few";
  pair.ways[2].missed = 0.25;
  pair.every_item = true;
  pair.judged_share = 0.5;
  pair.both.resize(1);
  pair.both[0].way = AdapterMode::kItem;
  pair.both[0].older = OlderShare{0.25, true};
  pair.both_pass = true;
  return pair;
}

TEST_F(Rollout, AValidationIsAskedForAndToldWithItsCalibrations) {
  auto fake = std::make_unique<FakeEngine>();
  ValidateCall asked;
  fake->on_validate = [&](const ValidateCall& call) -> absl::StatusOr<std::string> {
    asked = call;
    return std::string("4");
  };
  fake->on_get_generation = []() -> absl::StatusOr<GenerationStatus> {
    auto report = std::make_shared<ValidationReport>();
    report->pairs = {CalibratedPair(), PairReport()};
    report->pairs[1].verdict = Verdict::kWorse;
    report->pairs[1].passes_from_share = 0.75;
    GenerationStatus status;
    status.validation = report;
    return status;
  };
  Serve(std::move(fake));
  for (const bool without : {false, true}) {
    grpc::ClientContext context;
    v1::ValidateRequest request;
    request.set_collection("gallery");
    request.set_generation(2);
    request.set_without_calibration(without);
    v1::ValidateResponse response;
    ASSERT_TRUE(generations_->Validate(&context, request, &response).ok());
    EXPECT_EQ(response.job(), "4");
    EXPECT_EQ(asked.calibrate, !without);
  }
  grpc::ClientContext context;
  v1::GenerationsGetRequest get;
  v1::GenerationsGetResponse got;
  ASSERT_TRUE(generations_->Get(&context, get, &got).ok());
  const v1::PairValidation& pair = got.generation().validation().pairs(0);
  EXPECT_THAT(pair.summary(), ::testing::HasSubstr("passed by plain distance, its distances calibrated"));
  const v1::WayCalibration& found = pair.ways(0).calibration();
  EXPECT_EQ(found.none_because(), "");
  EXPECT_EQ(found.offset(), 0.5);
  EXPECT_EQ(found.slope(), 1.25);
  EXPECT_EQ(found.cmc1_gain().low(), 0.05);
  EXPECT_EQ(found.map_gain().value(), 0.3);
  EXPECT_EQ(found.map_gain().probes(), 60u);
  EXPECT_EQ(found.mixture(0).share(), 0.25);
  EXPECT_EQ(found.mixture(0).map(), 0.75);
  ASSERT_EQ(pair.ways_size(), 4);
  EXPECT_EQ(pair.ways(3).way(), v1::VALIDATION_WAY_BOTH);
  EXPECT_EQ(pair.ways(3).beside(), v1::VALIDATION_WAY_ITEM_ADAPTER);
  EXPECT_EQ(pair.ways(3).older_weight(), 0.25);
  EXPECT_TRUE(pair.ways(3).conditioned());
  EXPECT_TRUE(pair.both_passes());
  EXPECT_TRUE(pair.every_item());
  EXPECT_EQ(pair.judged_share(), 0.5);
  EXPECT_FALSE(pair.has_passes_from_share());
  EXPECT_EQ(got.generation().validation().pairs(1).passes_from_share(), 0.75);
  EXPECT_EQ(got.generation().validation().passes_from_share(), 0.75);
  EXPECT_EQ(pair.ways(2).missed(), 0.25);
  EXPECT_FALSE(pair.ways(0).has_missed());
  EXPECT_TRUE(found.wins());
  EXPECT_TRUE(found.dips());
  EXPECT_EQ(pair.ways(1).calibration().none_because(), "too few");
  EXPECT_FALSE(pair.ways(1).calibration().wins());
  EXPECT_FALSE(pair.ways(2).has_calibration());
}

TEST_F(Rollout, AJobIsWatchedUntilItHasEnded) {
  auto fake = std::make_unique<FakeEngine>();
  std::atomic<uint64_t> looks{0};
  fake->on_get_job = [&](const std::string& id) -> absl::StatusOr<JobStatus> {
    if (id != "7") return NotFound("no job '" + id + "'");
    JobStatus job;
    job.id = id;
    job.changes = looks++ / 2;  // every second look finds nothing new
    job.done = job.changes;
    job.state = job.changes < 3 ? JobState::kRunning : JobState::kSucceeded;
    return job;
  };
  Serve(std::move(fake));
  grpc::ClientContext context;
  v1::JobsWatchRequest request;
  request.set_id("7");
  auto stream = jobs_->Watch(&context, request);
  std::vector<uint64_t> done;
  v1::JobsWatchResponse news;
  while (stream->Read(&news)) done.push_back(news.job().done());
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(done, (std::vector<uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(news.job().state(), v1::JOB_STATE_SUCCEEDED);
  grpc::ClientContext other;
  request.set_id("8");
  auto missing = jobs_->Watch(&other, request);
  EXPECT_FALSE(missing->Read(&news));
  EXPECT_THAT(missing->Finish(), Fails(StatusCode::NOT_FOUND, "no job '8'"));
}

TEST_F(Rollout, ATrainingIsAJobToldInItsOwnWords) {
  auto fake = std::make_unique<FakeEngine>();
  fake->on_get_job = [](const std::string& id) -> absl::StatusOr<JobStatus> {
    JobStatus job;
    job.id = id;
    job.kind = id == "1" ? "train" : "validate";
    job.state = JobState::kSucceeded;
    job.result_json = R"({"generation": 4})";
    return job;
  };
  Serve(std::move(fake));
  grpc::ClientContext first, second, third, fourth, fifth;
  v1::TrainingGetRequest get;
  get.set_id("1");
  v1::TrainingGetResponse got;
  ASSERT_TRUE(training_->Get(&first, get, &got).ok());
  EXPECT_EQ(got.job().state(), "succeeded");
  EXPECT_EQ(got.job().generation(), 4u);
  get.set_id("2");
  EXPECT_THAT(training_->Get(&second, get, &got),
              Fails(StatusCode::NOT_FOUND, "job '2' is no training: its kind is validate"));
  v1::CancelRequest cancel;
  cancel.set_id("2");
  v1::CancelResponse cancelled;
  EXPECT_THAT(training_->Cancel(&third, cancel, &cancelled), Fails(StatusCode::NOT_FOUND, "no training"));
  v1::TrainingWatchRequest watch;
  watch.set_id("1");
  v1::TrainingWatchResponse news;
  auto stream = training_->Watch(&fourth, watch);
  EXPECT_TRUE(stream->Read(&news));
  EXPECT_FALSE(stream->Read(&news)) << "it has ended";
  EXPECT_TRUE(stream->Finish().ok());
  watch.set_id("2");
  EXPECT_THAT(training_->Watch(&fifth, watch)->Finish(), Fails(StatusCode::NOT_FOUND, "no training"));
}

TEST_F(Rollout, ACanaryServesWhoItsKeySaysAndIsSeenInMetrics) {
  Serve();
  MakeGallery("gallery");
  ASSERT_TRUE(Upsert(Batch("gallery", {"a", "b"})).ok());
  v1::RegisterRequest next;
  next.set_collection("gallery");
  next.set_manifest_json("{\"dimension\":4}");
  next.set_parent(1);
  v1::RegisterResponse registered;
  grpc::ClientContext first, second, third, fourth;
  const grpc::Status made = generations_->Register(&first, next, &registered);
  ASSERT_TRUE(made.ok()) << made.error_message();
  v1::SetCanaryRequest set;
  set.set_collection("gallery");
  set.set_generation(2);
  set.set_share(1);
  v1::SetCanaryResponse canary;
  const grpc::Status begun = generations_->SetCanary(&second, set, &canary);
  ASSERT_TRUE(begun.ok()) << begun.error_message();
  EXPECT_EQ(canary.canary().generation(), 2u);
  v1::SearchRequest search = SearchFor("gallery", {0, 1, 2, 3});
  search.set_canary_key("somebody");
  *search.mutable_queries(0)->mutable_canary_vector() = search.queries(0).vector();
  v1::SearchResponse found;
  ASSERT_TRUE(retrieval_->Search(&third, search, &found).ok());
  EXPECT_TRUE(found.canary());
  EXPECT_EQ(found.serving_generation(), 2u);
  search.mutable_queries(0)->mutable_item()->set_name("a");
  ASSERT_TRUE(retrieval_->Search(&fourth, search, &found).ok());
  EXPECT_THAT(found.results(0).error().message(), ::testing::HasSubstr("queries[0].canary_vector"));
}

TEST_F(Rollout, AWatchOfAJobThatNeverEndsEndsWithItsCallerAndWithTheServer) {
  auto fake = std::make_unique<FakeEngine>();
  fake->on_get_job = [](const std::string&) -> absl::StatusOr<JobStatus> {
    JobStatus job;
    job.state = JobState::kRunning;
    return job;
  };
  Serve(std::move(fake));
  v1::JobsWatchRequest request;
  v1::JobsWatchResponse news;
  {
    grpc::ClientContext context;
    auto stream = jobs_->Watch(&context, request);
    ASSERT_TRUE(stream->Read(&news));
    context.TryCancel();
    EXPECT_FALSE(stream->Read(&news));
    EXPECT_EQ(stream->Finish().error_code(), StatusCode::CANCELLED);
  }
  grpc::ClientContext context;
  auto stream = jobs_->Watch(&context, request);
  ASSERT_TRUE(stream->Read(&news));
  server_->BeginDrain();
  EXPECT_FALSE(stream->Read(&news));
  EXPECT_EQ(stream->Finish().error_code(), StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace lightcone::server
