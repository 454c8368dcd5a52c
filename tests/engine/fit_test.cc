// Adapters that the server fits: from what is stored, in a process of its own, through everything that can go wrong.
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>

#include "base/child_process.h"
#include "base/files.h"
#include "models/adapter_file.h"
#include "models/manifest.h"
#include "nlohmann/json.hpp"
#include "server/engine/collection/meta.h"
#include "server/engine/jobs/jobs.h"
#include "server/engine/training/adapter_pairs.h"
#include "store/keys.h"
#include "tests/engine/engine_testing.h"
#include "tests/trainer/two_models.h"
#include "validated.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

constexpr int kItems = 600, kOldWide = 8, kNewWide = 10;

class Fitting : public EngineTest {
 protected:
  void SetUp() override { Open(LIGHTCONE_BINARY_DIR "/bin/lightcone-model"); }
  void Open(const std::string& program) {
    engine_.reset();
    EngineOptions options = OptionsFor(folder_.path());
    options.helper_program = program;
    options.helper_niceness = 0;  // other tests run beside this one
    engine_ = OpenEngine(options);
    ASSERT_NE(engine_, nullptr);
  }

  // Two models that know nothing of each other; the new one has embedded nothing yet.
  void MakeWorld(Metric metric = Metric::kLorentz) {
    models_ = MakeTwoModels(kItems, 6, kOldWide, kNewWide, metric, 1);
    CreateCollectionCall create;
    create.name = "c";
    create.metric = metric;
    ASSERT_TRUE(engine_->CreateCollection(create).ok());
    for (const int dimension : {kOldWide, kNewWide}) {
      RegisterCall call;
      call.collection = "c";
      const double clip_radius = dimension == kOldWide ? 1.0 : 1.2;
      call.manifest_json =
          with_encoders_ ? WholeManifest(dimension, clip_radius) : ManifestFor(dimension, 1.0, clip_radius);
      call.expects_adapter = dimension == kNewWide;
      const auto made = engine_->RegisterGeneration(call);
      ASSERT_TRUE(made.ok()) << made.status();
    }
    Activate(1);
    UpsertBatch batch = BatchOf({}, 1);
    for (size_t i = 0; i < kItems; ++i) {
      batch.items.push_back(
          ItemOf(Id(i), Row(models_.old_z, i, kOldWide), StrCat("{\"class\":", models_.labels[i], "}")));
    }
    Write(std::move(batch));
  }
  static std::vector<float> Row(const std::vector<float>& all, size_t i, int wide) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * static_cast<size_t>(wide));
    return {begin, begin + wide};
  }
  std::vector<SampledItem> Sample(int64_t items, uint64_t seed = 1) {
    const auto sample = engine_->SampleItems({"c", 2, items, seed}, {});
    EXPECT_TRUE(sample.ok()) << sample.status();
    return sample.ok() ? *sample : std::vector<SampledItem>();
  }
  // As a worker would.
  void EmbedThese(const std::vector<SampledItem>& items) {
    UpsertBatch batch = BatchOf({}, 2, /*same_content=*/true);
    for (const SampledItem& item : items) {
      const uint64_t id = std::get<uint64_t>(item.id.value);
      batch.items.push_back(ItemOf(item.id, Row(models_.new_z, id, kNewWide)));
      batch.items.back().expected_sequence = item.sequence;
    }
    Write(std::move(batch));
  }
  static FitAdapterCall CallOf(uint32_t from, uint32_t to) {
    FitAdapterCall call;
    call.collection = "c";
    call.from = from;
    call.to = to;
    call.map = "residual-mlp";
    call.width = 16;
    return call;
  }
  JobStatus Ended(const std::string& id) {
    for (;;) {  // a job of a process: nothing to be woken by
      const auto job = engine_->GetJob(id);
      EXPECT_TRUE(job.ok()) << job.status();
      if (!job.ok() || job->final()) return job.ok() ? *job : JobStatus{};
      absl::SleepFor(absl::Milliseconds(20));
    }
  }
  JobStatus Run(const FitAdapterCall& call) {
    const auto id = engine_->FitAdapter(call);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.ok() ? Ended(*id) : JobStatus{};
  }
  // A program in the place of ours.
  std::string Script(const std::string& name, const std::string& body) {
    const std::string path = folder_.path() + "/." + name;
    EXPECT_TRUE(WriteFileAtomically(path, "#!/bin/sh\n" + body + "\n").ok());
    EXPECT_EQ(chmod(path.c_str(), 0755), 0);
    return path;
  }

  // The job of a fit that has begun and will not end by itself.
  absl::StatusOr<std::string> BegunByAProgramThatHangs(const FitAdapterCall& call) {
    Open(Script("hangs", "touch " + folder_.path() + "/.begun; exec sleep 1000"));
    absl::StatusOr<std::string> id = engine_->FitAdapter(call);
    while (id.ok() && !std::filesystem::exists(folder_.path() + "/.begun")) absl::SleepFor(absl::Milliseconds(5));
    return id;
  }

  // Of a model that we trained, by its dimension: its encoder's checksum is 100 and that.
  static std::string WholeManifest(int dimension, double clip_radius) {
    Manifest manifest;
    manifest.name = StrCat("model-", dimension);
    manifest.architecture = "mlp";
    manifest.dimension = dimension;
    manifest.clip_radius = clip_radius;
    manifest.input = {28, 28, 1, {0.5f}, {0.25f}};
    manifest.encoder_crc32c = 100 + static_cast<uint32_t>(dimension);
    return ToJson(manifest);
  }

  void PutProbesByClass() {
    PutProbesCall probes{"", "c", "daily", "", {}};
    for (size_t i = 0; i < 120; ++i) {
      Probe probe;
      probe.vectors = {{1, Row(models_.old_z, i, kOldWide)}, {2, Row(models_.new_z, i, kNewWide)}};
      for (size_t other = 0; other < kItems; ++other) {
        if (other != i && models_.labels[other] == models_.labels[i]) probe.relevant.push_back(Id(other));
      }
      probes.probes.push_back(std::move(probe));
    }
    ASSERT_TRUE(engine_->PutProbes(probes).ok());
  }

  bool with_encoders_ = false;
  TwoModels models_;
};

TEST_F(Fitting, AModelFromElsewhereSearchesTheOldGalleryFromTheItemsThatTheServerNamed) {
  MakeWorld();
  const std::vector<SampledItem> sample = Sample(150);
  ASSERT_EQ(sample.size(), 150u);
  std::set<ItemId> distinct;
  for (const SampledItem& item : sample) {
    distinct.insert(item.id);
    EXPECT_EQ(item.generation, 1u);
    EXPECT_FALSE(item.has_input);
  }
  EXPECT_EQ(distinct.size(), 150u);
  EmbedThese(sample);
  for (const SampledItem& item : Sample(10'000)) EXPECT_FALSE(distinct.contains(item.id)) << "it has been embedded";
  const JobStatus job = Run(CallOf(1, 2));
  ASSERT_EQ(job.state, JobState::kSucceeded) << job.error;
  const auto result = nlohmann::json::parse(job.result_json);
  EXPECT_EQ(result["pairs"], 150);
  EXPECT_EQ(result["embedded"], 0);
  EXPECT_EQ(result["loss"], "reg+rel");
  const auto adapters = engine_->ListAdapters("c");
  ASSERT_TRUE(adapters.ok());
  ASSERT_EQ(adapters->size(), 1u);
  EXPECT_EQ((*adapters)[0].version, result["version"]);
  EXPECT_EQ((*adapters)[0].input_dimension, kOldWide);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/jobs/" + job.id)) << "scratch files stay";
  // Queries of the new model find their class among items that it never saw.
  int right = 0, asked = 0;
  for (size_t i = 0; i < kItems; ++i) {
    if (distinct.contains(Id(i))) continue;
    SearchCall call = SearchFor(Row(models_.new_z, i, kNewWide), 2, 2);
    call.with_payload = true;
    for (const EngineHit& hit : Hits(call)) {
      if (hit.id == Id(i)) continue;
      ++asked;
      right += hit.payload_json == StrCat("{\"class\":", models_.labels[i], "}");
      break;
    }
  }
  EXPECT_GT(right, 0.7 * asked);
}

TEST_F(Fitting, QueriesAndLabelsAreFittedToo) {
  MakeWorld(Metric::kCosine);
  EmbedThese(Sample(200));
  FitAdapterCall call = CallOf(2, 1);
  call.label_field = "class";
  call.map = "affine";
  call.width = 0;
  call.pairs_max = 120;
  const JobStatus job = Run(call);
  ASSERT_EQ(job.state, JobState::kSucceeded) << job.error;
  const auto result = nlohmann::json::parse(job.result_json);
  EXPECT_EQ(result["pairs"], 120);
  EXPECT_EQ(result["loss"], "reg+rel+0.3*sup");
  EXPECT_EQ((*engine_->ListAdapters("c"))[0].direction, AdapterDirection::kQuery);
  call.label_field = "no.such";
  const JobStatus none = Run(call);
  EXPECT_EQ(none.state, JobState::kFailed);
  EXPECT_TRUE(Fails(none.error, Code::kFailedPrecondition, {"no.such", "SampleItems"}));
}

TEST_F(Fitting, WithoutAMapTheBestOnHeldOutPairsIsTakenAndTheJobSaysWhy) {
  MakeWorld(Metric::kCosine);
  EmbedThese(Sample(100));
  FitAdapterCall call = CallOf(1, 2);
  call.map = "";
  EXPECT_TRUE(Fails(engine_->FitAdapter(call), Code::kInvalidArgument, {"'width' is 16", "0 with map auto"}));
  call.width = 0;
  const JobStatus job = Run(call);
  ASSERT_EQ(job.state, JobState::kSucceeded) << job.error;
  const auto result = nlohmann::json::parse(job.result_json);
  const std::string map = result["map"], choice = result["choice"];
  EXPECT_TRUE(choice.starts_with(map + " has the least held-out loss reg+rel: procrustes ")) << choice;
}

TEST_F(Fitting, TheAdapterSaysWhichEncodersAndSpaceItWasFittedFor) {
  with_encoders_ = true;
  MakeWorld();
  EmbedThese(Sample(100));
  FitAdapterCall call = CallOf(1, 2);
  call.map = "procrustes";
  call.width = 0;
  const JobStatus job = Run(call);
  ASSERT_EQ(job.state, JobState::kSucceeded) << job.error;
  EditStore([&](Store* store, WriteBatch*) {
    const AdapterRecord record = *DecodeAdapterRecord(*store->Get(Table::kGenerations, keys::Adapter(1, 1, 2)));
    const AdapterFile file = *ParseAdapter(record.file);
    EXPECT_EQ(file.from_crc32c, 100u + kOldWide);
    EXPECT_EQ(file.to_crc32c, 100u + kNewWide);
    EXPECT_TRUE(file.source == Space({Metric::kLorentz, kOldWide, 1.0, 1.0}));
  });
}

TEST_F(Fitting, AValidationMixesItemsThatNoFitHasSeen) {
  MakeWorld(Metric::kCosine);
  EmbedThese(Sample(kItems - 50));  // some stay old, so that there is a pair of generations to measure
  PutProbesByClass();
  FitAdapterCall call = CallOf(1, 2);
  call.map = "kernel";
  call.width = 200;
  ASSERT_EQ(Run(call).state, JobState::kSucceeded);
  const int64_t fitted = (*engine_->ListAdapters("c"))[0].pairs;
  const auto report = Validated(engine_.get());
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->pairs.at(0).common_items, static_cast<uint64_t>(kItems - 50 - fitted)) << "those held out";
  EXPECT_EQ(report->pairs.at(0).fitted_pairs, 0u);
  EXPECT_FALSE(report->pairs.at(0).common_fitted);
  // Too few are held out of a small fit, and of one by somebody else nobody knows which.
  call.pairs_max = 100;
  call.width = 50;
  ASSERT_EQ(Run(call).state, JobState::kSucceeded);
  EditStore([&](Store* store, WriteBatch* batch) {
    AdapterRecord record = *DecodeAdapterRecord(*store->Get(Table::kGenerations, keys::Adapter(1, 1, 2)));
    AdapterFile file = *ParseAdapter(record.file);
    EXPECT_NE(file.fit.held_out_from, 0u);
    file.fit.held_out_from = 0;
    record.file = *EncodeAdapter(file);
    batch->Put(Table::kGenerations, keys::Adapter(1, 1, 2), Encode(record));
  });
  SetUp();
  const auto all = Validated(engine_.get());
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(all->pairs.at(0).common_items, static_cast<uint64_t>(kItems - 50));
  EXPECT_EQ(all->pairs.at(0).fitted_pairs, static_cast<uint64_t>((*engine_->ListAdapters("c"))[0].pairs));
  EXPECT_TRUE(all->pairs.at(0).common_fitted) << "such items grant no pass by the adapter";
}

TEST_F(Fitting, AValidationMixesAllCommonItemsWhereAFitHeldTooFewOut) {
  MakeWorld(Metric::kCosine);
  EmbedThese(Sample(200));
  PutProbesByClass();
  FitAdapterCall call = CallOf(1, 2);
  call.map = "affine";
  call.width = 0;
  ASSERT_EQ(Run(call).state, JobState::kSucceeded);
  const auto report = Validated(engine_.get());
  ASSERT_NE(report, nullptr);
  EXPECT_EQ(report->pairs.at(0).common_items, 200u);
  EXPECT_EQ(report->pairs.at(0).fitted_pairs, static_cast<uint64_t>((*engine_->ListAdapters("c"))[0].pairs));
  EXPECT_TRUE(report->pairs.at(0).common_fitted);
  EXPECT_FALSE(report->pairs.at(0).ways.at(0).mixture.empty());
}

TEST_F(Fitting, WhatCannotBeFittedIsSaid) {
  MakeWorld();
  EXPECT_TRUE(Fails(Run(CallOf(1, 2)).error, Code::kFailedPrecondition, {"generations 1 and 2 both", "2,000"}));
  EmbedThese(Sample(20));
  EXPECT_TRUE(Fails(Run(CallOf(1, 2)).error, Code::kFailedPrecondition, {"20 pairs", "at least 64"}));
  FitAdapterCall call = CallOf(1, 1);
  EXPECT_TRUE(Fails(engine_->FitAdapter(call), Code::kInvalidArgument, {"to_generation", "1"}));
  EXPECT_TRUE(Fails(engine_->FitAdapter(CallOf(1, 9)), Code::kNotFound, {"9"}));
  EXPECT_TRUE(Fails(engine_->FitAdapter(CallOf(0, 1)), Code::kInvalidArgument, {"from_generation"}));
  call = CallOf(1, 2);
  call.map = "spline";
  EXPECT_TRUE(Fails(engine_->FitAdapter(call), Code::kInvalidArgument, {"map", "'spline'", "kernel"}));
  call = CallOf(1, 2);
  call.loss = "reg --out=/etc/passwd";
  EXPECT_TRUE(Fails(engine_->FitAdapter(call), Code::kInvalidArgument, {"loss"}));
  call.loss = "reg+magic";
  EXPECT_TRUE(Fails(Run(call).error, Code::kFailedPrecondition, {"magic"}));
  for (const char* map : {"procrustes", "affine"}) {
    call = CallOf(1, 2);
    call.map = map;
    EXPECT_TRUE(Fails(engine_->FitAdapter(call), Code::kInvalidArgument, {"'width' is 16", "0 with map", map}));
  }
  for (const char* map : {"procrustes", "kernel"}) {
    call = CallOf(1, 2);
    call.map = map;
    call.width = 0;
    call.loss = "reg";
    EXPECT_TRUE(Fails(engine_->FitAdapter(call), Code::kInvalidArgument, {"'loss' is 'reg'", "auto with map", map}));
  }
  call = CallOf(1, 2);
  call.pairs_max = 2'000'000;
  EXPECT_TRUE(Fails(engine_->FitAdapter(call), Code::kInvalidArgument, {"pairs_max", "1000000"}));
  call = CallOf(1, 2);
  call.embed_max = 100;
  EXPECT_TRUE(Fails(engine_->FitAdapter(call), Code::kFailedPrecondition, {"no encoder", "SampleItems"}));
  call = CallOf(1, 2);
  call.label_field = "a..b";
  EXPECT_TRUE(Fails(engine_->FitAdapter(call), Code::kInvalidArgument, {"label_field"}));
  EXPECT_TRUE(Fails(engine_->SampleItems({"c", 2, 100'001, 1}, {}), Code::kInvalidArgument, {"items", "100000"}));
  EXPECT_TRUE(Fails(engine_->SampleItems({"c", 7, 10, 1}, {}), Code::kNotFound, {"7"}));
  Open("");
  EXPECT_TRUE(Fails(engine_->FitAdapter(CallOf(1, 2)), Code::kFailedPrecondition, {"lightcone adapt"}));
}

TEST_F(Fitting, AProgramThatDiesHangsOrIsMissingEndsTheJobAndNothingElse) {
  MakeWorld();
  EmbedThese(Sample(100));
  Open(Script("dies", "kill -9 $$"));
  EXPECT_TRUE(Fails(Run(CallOf(1, 2)).error, Code::kInternal, {"signal 9"}));
  Open(folder_.path() + "/.missing");
  EXPECT_TRUE(Fails(Run(CallOf(1, 2)).error, Code::kUnavailable, {".missing"}));
  Open(Script("says-yes", "exit 0"));  // and writes nothing
  EXPECT_EQ(Run(CallOf(1, 2)).state, JobState::kFailed);
  Open(Script("hangs", "echo $$ > " + folder_.path() + "/.pid; exec sleep 1000"));
  const auto id = engine_->FitAdapter(CallOf(1, 2));
  ASSERT_TRUE(id.ok()) << id.status();
  pid_t pid = 0;  // that it writes, with a line break
  while (!absl::SimpleAtoi(ReadFile(folder_.path() + "/.pid").value_or(""), &pid))
    absl::SleepFor(absl::Milliseconds(5));
  EXPECT_EQ(Hits(SearchFor(Row(models_.old_z, 0, kOldWide), 1)).size(), 1u) << "it serves meanwhile";
  ASSERT_TRUE(engine_->CancelJob(*id, "").ok());
  EXPECT_EQ(Ended(*id).state, JobState::kCancelled);
  EXPECT_NE(kill(pid, 0), 0) << "the program lives on";
}

TEST_F(Fitting, AServerThatEndsMeanwhileBeginsItAgain) {
  MakeWorld();
  EmbedThese(Sample(100));
  FitAdapterCall call = CallOf(1, 2);
  call.request_id = "once";
  const auto id = BegunByAProgramThatHangs(call);
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(*engine_->FitAdapter(call), *id) << "the same request again";
  Open(LIGHTCONE_BINARY_DIR "/bin/lightcone-model");
  const JobStatus job = Ended(*id);
  EXPECT_EQ(job.state, JobState::kSucceeded) << job.error;
  EXPECT_EQ(engine_->ListAdapters("c")->size(), 1u);
}

TEST_F(Fitting, AJobOfAnOlderServerMayNameAWidthAndALossThatItsMapDoesNotHave) {
  MakeWorld();
  EmbedThese(Sample(100));
  FitAdapterCall call = CallOf(1, 2);
  call.map = "procrustes";
  call.width = 0;
  const auto id = BegunByAProgramThatHangs(call);
  ASSERT_TRUE(id.ok()) << id.status();
  EditStore([&](Store* store, WriteBatch* batch) {
    JobRecord record = *DecodeJob(*store->Get(Table::kJobs, keys::Job(std::stoull(*id))));
    auto arguments = nlohmann::json::parse(record.arguments_json);
    arguments["width"] = 16;
    arguments["loss"] = "reg";
    record.arguments_json = arguments.dump();
    batch->Put(Table::kJobs, keys::Job(record.number), Encode(record));
  });
  Open(LIGHTCONE_BINARY_DIR "/bin/lightcone-model");
  const JobStatus job = Ended(*id);
  EXPECT_EQ(job.state, JobState::kSucceeded) << job.error;
}

TEST(DrawTest, TakesEachAsOftenAsAnyAndTheSameAgain) {
  std::vector<int> taken(1'000);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Draw<uint64_t> draw(100, seed), again(100, seed);
    for (uint64_t i = 0; i < taken.size(); ++i) draw.Offer(i, [i] { return i; });
    for (uint64_t i = taken.size(); i-- > 0;) again.Offer(i, [i] { return i; });
    const std::vector<uint64_t> one = draw.Take();
    EXPECT_EQ(one, again.Take()) << "the order of the stream matters";
    EXPECT_EQ(std::set<uint64_t>(one.begin(), one.end()).size(), 100u);
    for (const uint64_t i : one) ++taken[i];
  }
  // 20 times each on average, with a deviation of 4.2.
  EXPECT_GT(*std::min_element(taken.begin(), taken.end()), 2);
  EXPECT_LT(*std::max_element(taken.begin(), taken.end()), 42);
}

TEST(ChildProcess, OfTheLowestPriorityIsInTheKernelsIdleClassWithAllThatItStarts) {
  TemporaryFolder folder;
  for (const int niceness : {18, 19}) {
    const ChildProgram program{
        {"/bin/sh", "-c", "cut -d ' ' -f 41 /proc/self/stat"}, {}, folder.path() + "/output", niceness};
    ASSERT_EQ(*RunChild(program, [] { return false; }), 0);
    EXPECT_EQ(*ReadFile(program.output), StrCat(niceness < 19 ? SCHED_OTHER : SCHED_IDLE, "\n")) << niceness;
  }
}

TEST(ChildProcess, SaysHowItEndedAndKeepsWhatWasPrinted) {
  TemporaryFolder folder;
  const auto never = [] { return false; };
  ChildProgram program{{"/bin/sh", "-c", "echo out; echo err >&2; echo $WORD; nice; exit 3"},
                       {"WORD=said"},
                       folder.path() + "/output",
                       7};
  EXPECT_EQ(*RunChild(program, never), 3);
  const std::string output = *ReadFile(program.output);
  EXPECT_TRUE(output.starts_with("out\nerr\nsaid\n")) << output;
  EXPECT_TRUE(output.ends_with("\n7\n")) << output;
  program.words = {"/bin/sh", "-c", "kill -9 $$"};
  EXPECT_EQ(*RunChild(program, never), 128 + 9);
  program.words = {"/bin/sh", "-c", "kill -15 $$; exit 4"};
  EXPECT_EQ(*RunChild(program, never), 4) << "what stops a server is not for its children";
  program.words = {folder.path() + "/none"};
  EXPECT_EQ(RunChild(program, never).status().code(), absl::StatusCode::kUnavailable);
  program.words = {"/bin/sleep", "1000"};
  EXPECT_EQ(RunChild(program, [] { return true; }).status().code(), absl::StatusCode::kCancelled);
  program.output = folder.path() + "/no/such";
  EXPECT_EQ(RunChild(program, never).status().code(), absl::StatusCode::kNotFound);
}

TEST(ChildProcess, HasNoSecretOfTheEnvironmentOfTheOneThatStartsIt) {
  TemporaryFolder folder;
  ASSERT_EQ(setenv("SECRET_OF_THE_SERVER", "told", 1), 0);
  ASSERT_EQ(setenv("LC_NAME", "passed", 1), 0);
  const ChildProgram program{{"/bin/sh", "-c", "echo \"$SECRET_OF_THE_SERVER-$LC_NAME-$MORE\"; test -n \"$PATH\""},
                             {"MORE=given"},
                             folder.path() + "/output",
                             0};
  EXPECT_EQ(*RunChild(program, [] { return false; }), 0);
  EXPECT_EQ(*ReadFile(program.output), "-passed-given\n");
  unsetenv("SECRET_OF_THE_SERVER");
  unsetenv("LC_NAME");
}

}  // namespace
}  // namespace lightcone::server
