// Raw inputs through a real, tiny encoder: registered as TorchScript, used by upserts and queries.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "base/files.h"
#include "tests/engine/encoder_world.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;

class RawInputs : public EncoderTest {
 protected:
  void Open(const std::function<void(EngineOptions*)>& change) {
    engine_.reset();
    EngineOptions options = OptionsFor(folder_.path());
    change(&options);
    engine_ = OpenEngine(options);
    ASSERT_NE(engine_, nullptr);
  }
  // A program that leaves a line in a file each time, then does `body`, then is ours.
  std::string Script(const std::string& body) {
    const std::string path = folder_.path() + "/.program";
    EXPECT_TRUE(WriteFileAtomically(path, StrCat("#!/bin/sh\necho begun >> ", folder_.path(), "/.begun\n", body,
                                                 "\nexec ", LIGHTCONE_BINARY_DIR "/bin/lightcone-model", " \"$@\"\n"))
                    .ok());
    EXPECT_EQ(chmod(path.c_str(), 0755), 0);
    return path;
  }
  int64_t Begun() const {
    const std::string lines = ReadFile(folder_.path() + "/.begun").value_or("");
    return std::count(lines.begin(), lines.end(), '\n');
  }
  // What happens in a process wakes nobody here.
  template <typename Until>
  static void AwaitThat(Until until) {
    for (const absl::Time limit = absl::Now() + absl::Minutes(3); !until();) {
      ASSERT_LT(absl::Now(), limit);
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
  // By a generation, with a raw input.
  absl::Status Query(uint32_t generation, const CallContext& context = {}) {
    SearchCall call = SearchFor({}, 1, generation);
    call.queries[0].content = Tensor(1);
    const auto answer = engine_->Search(call, context);
    return answer.ok() ? answer->results[0].status : answer.status();
  }
};

TEST_F(RawInputs, AreEmbeddedTheSameForUpsertAndQueryAndSurviveARestart) {
  const auto made = engine_->RegisterGeneration(Call());
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(made->has_encoder);
  Activate(1);
  std::vector<UpsertItem> items(100);
  for (size_t i = 0; i < items.size(); ++i) {
    items[i].id = Id(i);
    items[i].content = Tensor(static_cast<float>(i));
  }
  UpsertBatch batch = BatchOf(std::move(items));
  batch.keep_input = true;
  Write(std::move(batch));
  EXPECT_TRUE(engine_->Get("c", {Id(3)}, 0, false, {})->items[0].has_input);
  for (int round = 0; round < 2; ++round) {
    std::vector<std::thread> callers;
    for (int c = 0; c < 4; ++c) {
      callers.emplace_back([&, c] {
        for (int i = c; i < 40; i += 4) {
          SearchCall call = SearchFor({}, 1);
          call.queries[0].content = Tensor(static_cast<float>(i));
          const auto hits = Hits(call);
          ASSERT_EQ(hits.size(), 1u);
          EXPECT_EQ(hits[0].id, Id(static_cast<uint64_t>(i)));
          EXPECT_NEAR(hits[0].distance, 0, 1e-4);
        }
      });
    }
    for (auto& caller : callers) caller.join();
    Restart();
  }
}

TEST_F(RawInputs, BadOnesAreNamedAndLoseNobodyElse) {
  ASSERT_TRUE(engine_->RegisterGeneration(Call()).ok());
  Activate(1);
  SearchCall call = SearchFor({}, 1);
  call.queries.resize(3);
  call.queries[0].content = RawInput(std::string("\x89PNG broken"));
  call.queries[1].content = Tensor(1);
  call.queries[2].content = RawInput(TensorInput{{3, 2, 2}, std::vector<float>(12)});
  const auto answer = engine_->Search(call, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(Fails(answer->results[0].status, Code::kInvalidArgument, {"queries[0].input"}));
  EXPECT_TRUE(answer->results[1].status.ok());
  EXPECT_TRUE(Fails(answer->results[2].status, Code::kInvalidArgument, {"queries[2].input.tensor.shape", "1 x 8 x 8"}));
  UpsertBatch batch = BatchOf({ItemOf(Id("a"), {1, 0, 0, 0}), ItemOf(Id("b"), {})});
  batch.items[1].content = RawInput(std::string("GIF89a"));
  EXPECT_TRUE(Fails(engine_->Upsert(std::move(batch), {}), Code::kInvalidArgument, {"items[1].input"}));
  EXPECT_EQ(engine_->Count("c", std::nullopt, {})->count, 0u);
}

TEST_F(RawInputs, TextsAreRefusedByNameWhereTheEncoderTakesImages) {
  ASSERT_TRUE(engine_->RegisterGeneration(Call()).ok());
  Activate(1);
  SearchCall call = SearchFor({}, 1);
  call.queries.resize(2);
  call.queries[0].content = RawInput(TextInput{"a text"});
  call.queries[1].content = Tensor(1);
  const auto answer = engine_->Search(call, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(Fails(answer->results[0].status, Code::kInvalidArgument, {"queries[0].input.text", "an image"}));
  EXPECT_TRUE(answer->results[1].status.ok());
  UpsertBatch batch = BatchOf({ItemOf(Id("a"), {})});
  batch.items[0].content = RawInput(TextInput{"a text"});
  EXPECT_TRUE(Fails(engine_->Upsert(std::move(batch), {}), Code::kInvalidArgument, {"items[0].input.text"}));
}

// The begin of a PNG of this size: no decoder takes it.
RawInput PngHeader(uint32_t width, uint32_t height) {
  std::string file = std::string("\x89PNG\r\n\x1a\n") + std::string("\0\0\0\rIHDR", 8);
  for (const uint32_t side : {width, height}) {
    for (int shift = 24; shift >= 0; shift -= 8) file.push_back(static_cast<char>(side >> shift & 0xff));
  }
  return file;
}

TEST_F(RawInputs, ImagesAreRefusedByTheSizeThatTheirHeaderStatesBeforeAnythingIsDecoded) {
  ASSERT_TRUE(engine_->RegisterGeneration(Call()).ok());
  Activate(1);
  Open([&](EngineOptions* options) { options->helper_program = Script(""); });
  SearchCall call = SearchFor({}, 1);
  call.queries[0].content = PngHeader(8'000, 8'000);
  const auto answer = engine_->Search(call, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(Fails(answer->results[0].status, Code::kInvalidArgument,
                    {"queries[0].input", "8000 x 8000 pixels", "36000000", "limits.image_pixels_max"}));
  EXPECT_EQ(Begun(), 0) << "no process was started for it";
}

TEST_F(RawInputs, ACallWhoseImagesHaveTooManyPixelsTogetherIsRefusedAsAWhole) {
  ASSERT_TRUE(engine_->RegisterGeneration(Call()).ok());
  Activate(1);
  Open([&](EngineOptions* options) {
    options->helper_program = Script("");
    options->encoder_pixels_max = 3'000'000;
  });
  SearchCall call = SearchFor({}, 1);
  call.queries.resize(4);
  for (auto& query : call.queries) query.content = PngHeader(1'000, 1'000);
  EXPECT_TRUE(Fails(engine_->Search(call, {}), Code::kResourceExhausted,
                    {"4000000 pixels", "3000000", "encoder.pixels_max", "fewer or smaller"}));
  EXPECT_EQ(Begun(), 0);
  call.queries.pop_back();
  for (int i = 0; i < 2; ++i) {  // what one call took is there again for the next
    const auto answer = engine_->Search(call, {});
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(Fails(answer->results[0].status, Code::kInvalidArgument, {"queries[0].input", "PNG"}));
  }
}

TEST_F(RawInputs, AnEncoderThatGivesNoNumbersOrTooFewIsNamedAndServesNobodyAVector) {
  for (const auto& [wrong, words] : {std::pair{Wrong::kNan, "nan"}, std::pair{Wrong::kShape, "another shape"}}) {
    MakeWrongEncoder(wrong);
    RegisterCall call = Call();
    call.parent = wrong == Wrong::kNan ? 0 : 1;
    const auto made = engine_->RegisterGeneration(call);
    ASSERT_TRUE(made.ok()) << made.status();
    if (made->generation == 1) Activate(1);
    const absl::Status status = Query(made->generation);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(MessageOf(status), testing::HasSubstr(words));
    EXPECT_THAT(MessageOf(status), testing::HasSubstr("queries[0].input"));
    EXPECT_TRUE(engine_->Search(SearchFor({0.1f, 0, 0, 0}, 1, made->generation), {}).ok()) << "the server serves";
  }
}

TEST_F(RawInputs, EncodersOfCallersAreRefusedWhereTheOptionSaysSo) {
  Open([](EngineOptions* options) { options->encoder_uploads = false; });
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(Call()), Code::kFailedPrecondition, {"'encoder'", "encoder.uploads"}));
  RegisterCall without = Call();
  without.encoder.clear();
  EXPECT_TRUE(engine_->RegisterGeneration(without).ok());
}

TEST_F(RawInputs, ProbesThatOnlyTheNewEncoderFailsOnCountAgainstItWhereItHasEmbeddedEverything) {
  MakeFaultyEncoder();
  for (uint32_t parent = 0; parent < 2; ++parent) {
    RegisterCall call = Call();
    call.parent = parent;
    ASSERT_TRUE(engine_->RegisterGeneration(call).ok());
  }
  Activate(1);
  const auto vector_of = [](uint64_t i) {
    const float angle = static_cast<float>(i % 6) + 0.01f * static_cast<float>(i / 6);
    return std::vector<float>{0.5f * std::cos(angle), 0.5f * std::sin(angle), 0, 0};
  };
  for (const uint32_t generation : {1u, 2u}) {
    std::vector<UpsertItem> items;
    for (uint64_t i = 0; i < 60; ++i) items.push_back(ItemOf(Id(i), vector_of(i), StrCat("{\"class\":", i % 6, "}")));
    UpsertBatch batch = BatchOf(std::move(items), generation);
    batch.same_content = generation == 2;
    if (batch.same_content) {
      for (UpsertItem& item : batch.items) item.payload_json.clear();
    }
    Write(std::move(batch));
  }
  const auto verdict = [&](bool faults) {
    PutProbesCall put{"", "c", "daily", "class", {}};
    for (uint64_t i = 0; i < 300; ++i) {  // enough to exclude a loss
      TensorInput tensor;
      tensor.shape = {1, kSide, kSide};
      tensor.values.assign(kSide * kSide, 0.0f);
      tensor.values[0] = faults && i % 3 == 0 ? kThrows : 1.0f;
      for (size_t d = 0; d < 4; ++d) tensor.values[1 + d] = 2 * vector_of(i)[d];
      Probe probe;
      probe.vectors = {{1, vector_of(i)}};
      probe.input = tensor;
      probe.label = FilterValue(static_cast<int64_t>(i % 6));
      put.probes.push_back(std::move(probe));
    }
    EXPECT_TRUE(engine_->PutProbes(put).ok());
    ValidateCall call;
    call.collection = "c";
    call.generation = 2;
    const auto id = engine_->ValidateGeneration(call);
    EXPECT_TRUE(id.ok()) << id.status();
    while (!engine_->GetJob(*id)->final()) std::this_thread::yield();
    const GenerationStatus after = *engine_->GetGeneration("c", 2);
    EXPECT_NE(after.validation, nullptr) << engine_->GetJob(*id)->error;
    const PairReport& pair = after.validation->pairs.at(0);
    EXPECT_TRUE(pair.replaced);
    EXPECT_NEAR(pair.ways.at(0).figures.cmc1.value, faults ? 2.0 / 3 : 1.0, 1e-9) << "of one batch each finds its own";
    return pair.verdict;
  };
  EXPECT_EQ(verdict(false), Verdict::kPassed);
  EXPECT_EQ(verdict(true), Verdict::kWorse);
}

TEST_F(RawInputs, ATruncatedOrForeignEncoderIsRefusedAndLeavesNoFile) {
  RegisterCall call = Call();
  call.encoder.resize(call.encoder.size() / 2);
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kInvalidArgument, {"encoder"}));
  manifest_.encoder_crc32c = Crc32c(call.encoder);
  call.manifest_json = ToJson(manifest_);
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kInvalidArgument, {"encoder"}));
  call.encoder = "not torch";
  manifest_.encoder_crc32c = Crc32c(call.encoder);
  call.manifest_json = ToJson(manifest_);
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(call), Code::kInvalidArgument, {"encoder"}));
  EXPECT_TRUE(engine_->ListGenerations("c")->empty());
  const std::string encoders = folder_.path() + "/encoders/1";
  EXPECT_TRUE(!std::filesystem::exists(encoders) || std::filesystem::is_empty(encoders));
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path() + "/jobs")) {
    ADD_FAILURE() << entry.path() << " is left of a trial";
  }
}

TEST_F(RawInputs, ATrialThatAKillALimitOrALackOfMemoryEndsMayBeAskedForAgain) {
  const auto tried_by = [&](const std::string& body, absl::Duration limit = absl::Minutes(1)) {
    Open([&](EngineOptions* options) {
      options->helper_program = Script(body);
      options->encoder_run_time_max = limit;
    });
    return engine_->RegisterGeneration(Call()).status();
  };
  EXPECT_TRUE(Fails(tried_by("kill -9 $$"), Code::kUnavailable, {"encoder", "SIGKILL"}));
  EXPECT_TRUE(Fails(tried_by("exec sleep 1000", absl::Seconds(1)), Code::kUnavailable, {"encoder.run_seconds_max"}));
  EXPECT_TRUE(Fails(tried_by("echo out of memory >&2; exit 6"), Code::kUnavailable, {"out of memory"}));
  EXPECT_TRUE(Fails(tried_by("kill -11 $$"), Code::kInvalidArgument, {"encoder", "SIGSEGV"}));
}

TEST_F(RawInputs, NoMoreEncodersAreTriedAtOnceThanTheOptionAllows) {
  Open([&](EngineOptions* options) {
    options->helper_program = Script("exec sleep 1000");
    options->encoder_trials_max = 1;
  });
  std::thread first(
      [&] { EXPECT_TRUE(Fails(engine_->RegisterGeneration(Call()), Code::kUnavailable, {"shutting down"})); });
  AwaitThat([&] { return Begun() == 1; });
  EXPECT_TRUE(Fails(engine_->RegisterGeneration(Call()), Code::kResourceExhausted, {"1 encoders are being tried"}));
  engine_->StopEncoders();
  first.join();
}

TEST_F(RawInputs, AnEncoderKeepsItsProcessForAWhileWhenAnotherOneWaits) {
  for (uint32_t parent = 0; parent < 2; ++parent) {
    RegisterCall call = Call();
    call.parent = parent;
    ASSERT_TRUE(engine_->RegisterGeneration(call).ok());
  }
  Activate(1);
  Open([&](EngineOptions* options) {
    options->helper_program = Script("");
    options->encoder_processes_max = 1;
    options->encoder_stay = absl::Hours(1);
  });
  EXPECT_TRUE(Query(1).ok());
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/jobs/encoder-1-1-0.txt")) << "a file of the seat alone";
  CallContext soon;
  soon.deadline = absl::Now() + absl::Seconds(2);
  EXPECT_EQ(Query(2, soon).code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(Query(1).ok());
  EXPECT_EQ(Begun(), 1);
  Open([&](EngineOptions* options) {
    options->helper_program = Script("");
    options->encoder_processes_max = 1;
    options->encoder_stay = absl::ZeroDuration();
  });
  EXPECT_TRUE(Query(1).ok());
  EXPECT_TRUE(Query(2).ok());
  EXPECT_EQ(Begun(), 3);
}

TEST_F(RawInputs, AValidationWhoseEncoderStopsWithTheServerGoesOnWithTheNextStart) {
  // A slow encoder waits for a file.
  const auto not_locked_in = [](EngineOptions* options) { options->encoder_sandbox = LockMode::kOff; };
  Open(not_locked_in);
  MakeFaultyEncoder();
  for (uint32_t parent = 0; parent < 2; ++parent) {
    RegisterCall call = Call();
    call.parent = parent;
    ASSERT_TRUE(engine_->RegisterGeneration(call).ok());
  }
  Activate(1);
  Write(BatchOf({ItemOf(Id("a"), {0.1f, 0, 0, 0})}));
  TensorInput slow = std::get<TensorInput>(Tensor(1));
  slow.values[0] = kIsSlow;
  Probe probe;
  probe.vectors = {{1, {0.1f, 0, 0, 0}}};
  probe.input = slow;
  probe.relevant = {Id("a")};
  PutProbesCall put{"", "c", "daily", "", {}};
  put.probes.push_back(std::move(probe));
  ASSERT_TRUE(engine_->PutProbes(put).ok());
  ValidateCall call;
  call.collection = "c";
  call.generation = 2;
  const auto id = engine_->ValidateGeneration(call);
  ASSERT_TRUE(id.ok()) << id.status();
  const std::string said = folder_.path() + "/jobs/encoder-1-2-0.txt";
  AwaitThat([&] {
    EXPECT_FALSE(engine_->GetJob(*id)->final()) << engine_->GetJob(*id)->error;
    return engine_->GetJob(*id)->final() || ReadFile(said).value_or("").find("slow") != std::string::npos;
  });
  engine_->StopEncoders();
  AwaitThat([&] { return engine_->GetJob(*id)->state != JobState::kRunning; });
  EXPECT_EQ(engine_->GetJob(*id)->state, JobState::kQueued);
  LetSlowGoOn();
  Open(not_locked_in);
  AwaitThat([&] { return engine_->GetJob(*id)->final(); });
  EXPECT_EQ(engine_->GetJob(*id)->state, JobState::kSucceeded) << engine_->GetJob(*id)->error;
}

}  // namespace
}  // namespace lightcone::server
