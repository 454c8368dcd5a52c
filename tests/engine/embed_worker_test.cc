// Encoders that crash, hang, talk nonsense or eat memory in the middle of a backfill: in the process of the server's
// own program, with an encoder that does it, and of programs in its place.
#include "server/engine/embed/embed_worker.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/child_process.h"
#include "base/cores.h"
#include "base/files.h"
#include "base/utf8.h"
#include "server/embed_worker/input_encoder.h"
#include "server/engine/collection/raw_input.h"
#include "server/engine/embed/embed_frames.h"
#include "store/keys.h"
#include "tests/engine/encoder_world.h"

namespace lightcone::server {
namespace {

using Code = absl::StatusCode;
using testing::HasSubstr;

constexpr char kProgram[] = LIGHTCONE_BINARY_DIR "/bin/lightcone-model";
constexpr uint64_t kItems = 100;
#ifdef LIGHTCONE_SANITIZED  // its own handler ends the process, and its shadow fits no limit
constexpr char kCrashed[] = "the encoder ended with ";
constexpr bool kLimitsMemory = false;
#else
constexpr char kCrashed[] = "the encoder ended with signal 8 (SIGFPE)";
constexpr bool kLimitsMemory = true;
#endif

class EmbedWorkerTest : public EncoderTest {
 protected:
  void SetUp() override {
    EncoderTest::SetUp();
    Open(kProgram);
  }
  // `change`: other options.
  void Open(const std::string& program, const std::function<void(EngineOptions*)>& change = {}) {
    program_ = program;
    change_ = change;
    engine_.reset();
    EngineOptions options = OptionsFor(folder_.path());
    options.helper_program = program;
    options.helper_niceness = 0;
    options.embed_pass_pause = absl::Milliseconds(50);
    if (change) change(&options);
    engine_ = OpenEngine(options);
    ASSERT_NE(engine_, nullptr);
  }
  // Items of generation 1 with their inputs, where `faults` says with a fault; generation 2, with the faulty encoder,
  // serves. Our own program registers and embeds them; what the test opened is open again afterwards.
  void MakeWorld(const std::map<uint64_t, float>& faults, uint64_t items = kItems, bool weary = false) {
    const auto [program, change] = std::pair(program_, change_);
    Open(kProgram);
    ASSERT_TRUE(engine_->RegisterGeneration(Call()).ok());
    Activate(1);
    for (uint64_t id = 0; id < items; ++id) {
      UpsertBatch batch = BatchOf({ItemOf(Id(id), {})}, 1);
      batch.items[0].content = Input(id, faults.contains(id) ? faults.at(id) : 0);
      batch.keep_input = true;
      batch.durability = Durability::kProcess;
      Write(std::move(batch));
    }
    weary ? MakeWearyEncoder() : MakeFaultyEncoder();
    RegisterCall call = Call();
    call.parent = 1;
    const auto made = engine_->RegisterGeneration(call);
    ASSERT_TRUE(made.ok()) << made.status();
    Activate(2);
    Open(program, change);
  }
  static TensorInput Input(uint64_t id, float fault) {
    TensorInput tensor = std::get<TensorInput>(Tensor(static_cast<float>(id)));
    tensor.values[0] = fault;
    return tensor;
  }
  absl::StatusOr<BackfillStatus> Start(double rate = 1e6) {
    StartBackfillCall call;
    call.collection = "c";
    call.embed_rate = rate;
    return engine_->StartBackfill(call);
  }
  // Polls: what is waited for happens in a thread of the engine, or in a process.
  template <typename Until>
  void AwaitThat(Until until) {
    for (const absl::Time limit = absl::Now() + absl::Minutes(3); !until();) {
      const auto status = engine_->GetBackfill("c");
      ASSERT_LT(absl::Now(), limit) << status->items_left << " left, " << status->items_aside << " aside, "
                                    << status->error;
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
  BackfillStatus Await(const std::function<bool(const BackfillStatus&)>& until) {
    BackfillStatus status;
    AwaitThat([&] { return until(status = *engine_->GetBackfill("c")); });
    return status;
  }
  BackfillStatus AwaitLeft(uint64_t left) {
    return Await([left](const BackfillStatus& now) { return now.items_left == left && now.items_leased == 0; });
  }
  // Every item but `except` has its vector of generation 2, bit for bit.
  void ExpectEmbedded(const std::set<uint64_t>& except, uint64_t items = kItems) {
    for (uint64_t id = 0; id < items; ++id) {
      const auto got = engine_->Get("c", {Id(id)}, 2, true, {});
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(got->items.size(), except.contains(id) ? 0u : 1u) << id;
      if (except.contains(id)) continue;
      std::vector<float> expected;
      for (int i = 1; i <= kDimension; ++i) expected.push_back(0.5f * Input(id, 0).values[static_cast<size_t>(i)]);
      EXPECT_EQ(got->items[0].vector, expected) << id;
    }
  }
  void ExpectServes() { EXPECT_EQ(Hits(SearchFor({0.1f, 0, 0, 0}, 10)).size(), 10u); }
  // A program in the place of ours.
  std::string Script(const std::string& body) {
    const std::string path = folder_.path() + "/.program";
    EXPECT_TRUE(WriteFileAtomically(path, "#!/bin/sh\n" + body + "\n").ok());
    EXPECT_EQ(chmod(path.c_str(), 0755), 0);
    return path;
  }
  // Ours, whose number each time goes into a file.
  std::string Watched() { return Script(StrCat("echo $$ >> ", folder_.path(), "/.pids\nexec ", kProgram, " \"$@\"")); }
  std::vector<pid_t> Pids() const {
    std::istringstream text(ReadFile(folder_.path() + "/.pids").value_or(""));
    std::vector<pid_t> pids;
    for (pid_t pid = 0; text >> pid;) pids.push_back(pid);
    return pids;
  }
  // With the encoder that was made last.
  EmbedWorkerOptions WorkerOptions(const std::string& program) {
    EmbedWorkerOptions options;
    options.program = {{program, "embed-worker"}, {}, folder_.path() + "/.said", 0, 0};
    options.setup = {folder_.path() + "/.alone.pt", ToJson(manifest_), 2, 1, 64, 1 << 20, 2};
    EXPECT_TRUE(WriteFileAtomically(options.setup.encoder_path, encoder_).ok());
    options.dimension = kDimension;
    options.time_max = absl::Minutes(2);
    options.load_time_max = absl::Minutes(10);
    return options;
  }
  std::string program_;
  std::function<void(EngineOptions*)> change_;
  // Until an encoder has printed this, in the middle of its batch.
  void AwaitSaid(const std::string& word) {
    const std::string file = folder_.path() + "/jobs/backfill-1.txt";
    AwaitThat([&] { return ReadFile(file).value_or("").find(word) != std::string::npos; });
  }
};

TEST_F(EmbedWorkerTest, AnInputThatCrashesTheEncoderIsSetAsideWithTheSignalAndAllOthersAreEmbedded) {
  MakeWorld({{7, kCrashes}, {80, kCrashes}});
  ASSERT_TRUE(Start().ok());
  const BackfillStatus status = AwaitLeft(2);
  ExpectServes();
  ExpectEmbedded({7, 80});
  EXPECT_EQ(status.state, BackfillState::kRunning);
  EXPECT_TRUE(status.error.ok()) << status.error;
  ASSERT_EQ(status.aside.size(), 2u);
  for (const AsideItem& item : status.aside) {
    EXPECT_TRUE(item.id == Id(7) || item.id == Id(80));
    EXPECT_THAT(item.reason, HasSubstr(kCrashed));
  }
  const auto lease = engine_->LeaseBackfill({"c", 100, absl::Minutes(5), ""});
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->items.size(), 2u) << "workers elsewhere get them";
}

TEST_F(EmbedWorkerTest, AnInputThatHangsTheEncoderIsSetAsideWhileSearchesGoOn) {
  Open(kProgram, [](EngineOptions* options) { options->helper_embed_time_max = absl::Seconds(3); });
  MakeWorld({{7, kHangs}});
  ASSERT_TRUE(Start().ok());
  AwaitSaid("hangs");
  ExpectServes();
  EXPECT_EQ(engine_->GetBackfill("c")->items_done, 0u) << "it is in the first batch";
  const BackfillStatus status = AwaitLeft(1);
  ExpectEmbedded({7});
  ASSERT_EQ(status.aside.size(), 1u);
  EXPECT_EQ(status.aside[0].id, Id(7));
  EXPECT_THAT(status.aside[0].reason, HasSubstr("the encoder took longer than 3 s"));
}

TEST_F(EmbedWorkerTest, TheServerAPauseAndARollbackDoNotWaitForAnEncoderThatHangs) {
  Open(Watched(), [](EngineOptions* options) { options->helper_embed_time_max = absl::Hours(1); });
  MakeWorld({{7, kHangs}});
  ASSERT_TRUE(Start().ok());
  AwaitSaid("hangs");
  ASSERT_TRUE(engine_->PauseBackfill("c", "").ok());
  EXPECT_EQ(Await([](const BackfillStatus& now) { return now.items_leased == 0; }).items_aside, 0u);
  AwaitThat([&] { return kill(Pids().back(), 0) != 0; });
  ASSERT_TRUE(Start().ok());
  AwaitThat([&] { return Pids().size() == 2; });
  AwaitSaid("hangs");
  SwitchCall back;
  back.collection = "c";
  ASSERT_TRUE(engine_->RollbackGeneration(back).ok());
  AwaitThat([&] { return kill(Pids().back(), 0) != 0; });
  Activate(2);
  AwaitThat([&] { return Pids().size() == 3; });
  AwaitSaid("hangs");
  const auto begun = std::chrono::steady_clock::now();
  engine_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
  EXPECT_NE(kill(Pids().back(), 0), 0) << "it outlives the server";
}

TEST_F(EmbedWorkerTest, AnEncoderKilledFromOutsideInTheMiddleOfABatchIsStartedAgainAndNothingIsSetAside) {
  // A slow encoder waits for a file.
  Open(Watched(), [](EngineOptions* options) { options->encoder_sandbox = LockMode::kOff; });
  MakeWorld({{7, kIsSlow}});
  ASSERT_TRUE(Start().ok());
  AwaitSaid("slow");
  ASSERT_EQ(kill(Pids().back(), SIGKILL), 0);
  // Again where it is alone: once may be anybody's doing.
  AwaitThat([&] { return Pids().size() == 2; });
  AwaitSaid("slow");
  ASSERT_EQ(kill(Pids().back(), SIGKILL), 0);
  LetSlowGoOn();
  EXPECT_EQ(AwaitLeft(0).items_aside, 0u);
  EXPECT_EQ(Pids().size(), 3u);
  ExpectEmbedded({});
}

TEST_F(EmbedWorkerTest, WhatTheEncoderRefusesOrCannotHoldInMemoryIsSetAsideAndItsProcessLives) {
  MakeWorld({{7, kThrows}, {20, kLimitsMemory ? kEatsMemory : kThrows}});
  EditStore([&](Store* store, WriteBatch* batch) {
    const auto item = store->Get(Table::kItems, keys::Item(1, Id(33)));
    ASSERT_TRUE(item.ok()) << item.status();
    batch->Put(Table::kInputs, keys::Input(1, DecodeItem(*item)->internal_id), "Ino image");
  });
  Open(Watched(),
       [](EngineOptions* options) { options->helper_memory_bytes_max = kLimitsMemory ? int64_t{3} << 30 : 0; });
  ASSERT_TRUE(Start().ok());
  const BackfillStatus status = AwaitLeft(3);
  ExpectEmbedded({7, 20, 33});
  std::map<uint64_t, std::string> reasons;
  for (const AsideItem& item : status.aside) reasons[std::get<uint64_t>(item.id.value)] = item.reason;
  EXPECT_THAT(reasons[7], HasSubstr("no such picture"));
  EXPECT_THAT(reasons[20], HasSubstr(kLimitsMemory ? "memory" : "no such picture"));
  EXPECT_THAT(reasons[33], HasSubstr("input: "));
  EXPECT_LE(Pids().size(), 2u) << "only a lack of memory of the second batch is tried in a fresh one";
}

TEST_F(EmbedWorkerTest, NeighboursThatAllFailAreSetAsideAndAllOthersAreEmbedded) {
  MakeFaultyEncoder();
  const EmbedWorkerOptions options = WorkerOptions(Watched());
  {
    EmbedWorker worker(options);
    const auto good = worker.Embed({{EncodeInput(Input(1, 0))}}, [] { return false; });
    ASSERT_TRUE(good.ok() && (*good)[0].ok());
    std::vector<std::string> inputs;
    for (uint64_t id = 0; id < kItems; ++id)
      inputs.push_back(EncodeInput(Input(id, id >= 40 && id < 52 ? kThrows : 0)));
    // More than is kept of what it printed.
    ASSERT_TRUE(WriteFileAtomically(options.program.output + "-long", std::string(2 << 20, 'x')).ok());
    std::filesystem::copy_file(options.program.output + "-long", options.program.output,
                               std::filesystem::copy_options::overwrite_existing);
    const auto got = worker.Embed(inputs, [] { return false; });
    ASSERT_TRUE(got.ok()) << got.status();
    for (uint64_t id = 0; id < kItems; ++id) EXPECT_EQ((*got)[id].ok(), id < 40 || id >= 52) << id;
    EXPECT_TRUE(Fails((*got)[51], Code::kInvalidArgument, {"no such picture"}));
    EXPECT_EQ(Pids().size(), 1u) << "the process answers: it is the inputs, and nobody waits for another one";
    EXPECT_LT(std::filesystem::file_size(options.program.output), 1u << 20);
  }
  EXPECT_FALSE(std::filesystem::exists(options.program.output));
}

TEST_F(EmbedWorkerTest, AWholeGalleryThatFailsIsSetAsideWhereTheEncoderWorksAtZeros) {
  std::map<uint64_t, float> faults;
  for (uint64_t id = 0; id < 30; ++id) faults[id] = kThrows;
  MakeWorld(faults, 30);
  ASSERT_TRUE(Start().ok());
  EXPECT_TRUE(Await([](const BackfillStatus& now) { return now.items_aside == 30; }).error.ok());
}

TEST_F(EmbedWorkerTest, AnEncoderThatFailsAtWhateverItIsGivenStopsTheEmbeddingUntilTheNextStart) {
  Open(Watched());
  MakeWorld({}, kItems, /*weary=*/true);
  ASSERT_TRUE(Start().ok());
  BackfillStatus status = Await([](const BackfillStatus& now) { return !now.error.ok() && now.items_leased == 0; });
  EXPECT_THAT(MessageOf(status.error), HasSubstr("stopped until the backfill is started again"));
  EXPECT_THAT(MessageOf(status.error), HasSubstr("10 inputs one after another"));
  EXPECT_THAT(MessageOf(status.error), HasSubstr("too weary"));
  EXPECT_EQ(status.state, BackfillState::kRunning) << "workers elsewhere may go on";
  EXPECT_EQ(status.items_aside, 0u) << "it is not these items";
  EXPECT_EQ(engine_->LeaseBackfill({"c", 1'000, absl::Milliseconds(1), ""})->items.size(), kItems);
  ExpectServes();
  EXPECT_EQ(Pids().size(), 2u) << "it was given another chance, with zeros";
  const auto again = Start();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->error.ok()) << again->error;
  EXPECT_EQ(again->started, status.started) << "the same backfill, in its order";
  Await([](const BackfillStatus& now) { return !now.error.ok() && now.items_leased == 0; });
  EXPECT_EQ(Pids().size(), 4u);
}

TEST_F(EmbedWorkerTest, AProgramThatDiesOrTalksNonsenseAtItsStartIsTriedAgainUntilItStarts) {
  const std::string start = StrCat("echo $$ >> ", folder_.path(), "/.pids\n");
  Open(Script(start + "echo no such library >&2; exit 3"),
       [](EngineOptions* options) { options->embed_retry = absl::Milliseconds(1); });
  MakeWorld({});
  ASSERT_TRUE(Start().ok());
  AwaitThat([&] { return Pids().size() >= 8; });
  const BackfillStatus before = *engine_->GetBackfill("c");
  EXPECT_THAT(MessageOf(before.error), HasSubstr("tried again soon"));
  EXPECT_THAT(MessageOf(before.error), HasSubstr("ended with exit code 3: no such library"));
  const auto fails = [](const std::string& how) {
    return [how](const BackfillStatus& now) { return MessageOf(now.error).find(how) != std::string::npos; };
  };
  Script("echo HTTP/1.1 200 OK, and all is well; exec sleep 1000");
  EXPECT_NE(Start()->started, before.started) << "what is tried again by itself holds nothing up: another backfill";
  EXPECT_THAT(MessageOf(Await(fails("answered nonsense")).error), HasSubstr("tried again soon"));
  ExpectServes();
  Script("printf 'caf\\351 \\377\\n' >&2; kill -9 $$");
  const std::string killed = MessageOf(Await(fails("SIGKILL")).error);
  EXPECT_THAT(killed, HasSubstr("caf? ?"));
  EXPECT_TRUE(IsUtf8(killed));
  // Nobody embeds here any more, so nothing fails.
  ASSERT_TRUE(engine_->PauseBackfill("c", "").ok());
  ASSERT_TRUE(Start(0).ok());
  Await([](const BackfillStatus& now) { return now.items_leased == 0; });
  EXPECT_TRUE(engine_->GetBackfill("c")->error.ok());
  std::filesystem::remove(folder_.path() + "/.program");
  ASSERT_TRUE(Start().ok());
  EXPECT_THAT(MessageOf(Await(fails("cannot start")).error), HasSubstr("tried again soon"));
  // One that is there again after it failed is used without being asked for.
  Script(StrCat("[ -e ", folder_.path(), "/.tried ] && exec ", kProgram, " \"$@\"\ntouch ", folder_.path(),
                "/.tried\nexit 1"));
  EXPECT_TRUE(AwaitLeft(0).error.ok());
  ExpectEmbedded({});
}

TEST_F(EmbedWorkerTest, AProgramThatTalksNonsenseOnceItIsReadyOrNeverIsStopsTheEmbeddingAlone) {
  const std::string ready = folder_.path() + "/.ready";
  ASSERT_TRUE(WriteFileAtomically(ready, Frame(FrameKind::kReady, EncodeReady(absl::OkStatus()))).ok());
  Open(Script(StrCat("cat ", ready, "; exec cat /dev/zero")),
       [](EngineOptions* options) { options->embed_retry = absl::Milliseconds(1); });
  MakeWorld({});
  ASSERT_TRUE(Start().ok());
  const auto stopped = [](const BackfillStatus& now) {
    return MessageOf(now.error).find("stopped until") != std::string::npos && now.items_leased == 0;
  };
  EXPECT_THAT(MessageOf(Await(stopped).error), HasSubstr("answered nonsense"));
  ExpectServes();
  Open(Script("exec sleep 1000"), [](EngineOptions* options) {
    options->helper_embed_time_max = absl::Seconds(1);
    options->embed_retry = absl::Milliseconds(1);
  });
  EXPECT_THAT(MessageOf(Await([](const BackfillStatus& now) { return !now.error.ok(); }).error),
              HasSubstr("took longer than 5 s"));
  ExpectServes();
}

TEST_F(EmbedWorkerTest, AnEncoderInAProcessOfItsOwnGivesTheBitsThatOneInThisProcessGives) {
  MakeEncoder(9);
  EmbedWorkerOptions options = WorkerOptions(kProgram);
  const std::string manifest = options.setup.manifest_json;
  std::vector<std::string> inputs;
  for (int i = 0; i < 200; ++i) inputs.push_back(EncodeInput(Tensor(static_cast<float>(i))));
  inputs[3] = "Ino image";
  inputs[77] = "neither";
  const std::vector<std::string_view> views(inputs.begin(), inputs.end());
  EmbedWorker worker(options);
  const auto here = InputEncoder::Load(options.setup);
  ASSERT_TRUE(here.ok()) << here.status();
  for (int repetition = 0; repetition < 3; ++repetition) {
    const EmbeddedInputs expected = here->Embed(views);
    const auto got = worker.Embed(inputs, [] { return false; });
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->size(), expected.size());
    for (size_t i = 0; i < got->size(); ++i) {
      EXPECT_EQ((*got)[i].ok(), i != 3 && i != 77) << i;
      EXPECT_EQ(MessageOf((*got)[i].status()), MessageOf(expected[i].status()));
      if ((*got)[i].ok() && expected[i].ok()) {
        EXPECT_EQ(*(*got)[i], *expected[i]) << i;
      }
    }
  }
  options.setup.manifest_json = "{}";
  EXPECT_TRUE(Fails(EmbedWorker(options).Embed(inputs, [] { return false; }), Code::kInvalidArgument, {"manifest"}));
  options.setup.encoder_path += "-gone";
  options.setup.manifest_json = manifest;
  EXPECT_TRUE(Fails(EmbedWorker(options).Embed(inputs, [] { return false; }), Code::kNotFound,
                    {"load the encoder of generation 2", "-gone"}));
}

// --- Frames: a reader takes what it gets from a text.

ReadBytes FromText(std::string text) {
  return [text = std::move(text), at = size_t{0}](char* out, size_t bytes) mutable {
    if (text.size() - at < bytes) return Aborted("the text has ended");
    std::copy_n(text.data() + at, bytes, out);
    at += bytes;
    return absl::OkStatus();
  };
}

TEST(EmbedFrames, AFrameWithAnyByteChangedIsRefused) {
  const std::string frame = Frame(FrameKind::kInputs, "what is said");
  EXPECT_EQ(*ReadFrame(FromText(frame), FrameKind::kInputs, 100), "what is said");
  for (size_t i = 0; i < frame.size(); ++i) {
    std::string changed = frame;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    EXPECT_FALSE(ReadFrame(FromText(changed), FrameKind::kInputs, 100).ok()) << "byte " << i;
    EXPECT_FALSE(ReadFrame(FromText(frame.substr(0, i)), FrameKind::kInputs, 100).ok()) << i << " bytes";
  }
  EXPECT_TRUE(Fails(ReadFrame(FromText(frame), FrameKind::kVectors, 100), Code::kDataLoss, {"kind 3", "expected: 4"}));
  EXPECT_TRUE(Fails(ReadFrame(FromText(frame), FrameKind::kInputs, 11), Code::kDataLoss, {"12 bytes", "0 .. 11"}));
}

TEST_F(EmbedWorkerTest, EncodersOfCallsDecodeOnAllCoresAndThoseOfBackfillsOnTheThreadsOfHelpers) {
  const std::string said = folder_.path() + "/.setup";
  Open(Script(StrCat("dd bs=1048576 count=1 of=", said, ".part 2>/dev/null\nmv ", said, ".part ", said)),
       [](EngineOptions* options) { options->helper_threads = 3; });
  MakeWorld({});
  const auto decode_threads = [&] {
    AwaitThat([&] { return std::filesystem::exists(said); });
    const auto body = ReadFrame(FromText(ReadFile(said).value_or("")), FrameKind::kSetup, 1 << 20);
    EXPECT_TRUE(body.ok()) << body.status();
    return DecodeSetup(body.value_or("")).value_or(EmbedSetup()).decode_threads;
  };
  SearchCall call = SearchFor({}, 1);
  call.queries[0].content = Tensor(1);
  const auto answer = engine_->Search(call, {});
  EXPECT_FALSE(answer.ok() && answer->results[0].status.ok()) << "this program embeds nothing";
  EXPECT_EQ(decode_threads(), std::min(AvailableCores(), kDecodeThreadsMax));
  std::filesystem::remove(said);
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(decode_threads(), 3);
}

#ifndef LIGHTCONE_SANITIZED  // The allocator of a sanitizer ends the process.
TEST(InputDecoding, ALackOfMemoryIsTheErrorOfItsInputsAndEndsNoProcess) {
  const TensorInput large{{1, 8'192, 4'096}, std::vector<float>(size_t{8'192} * 4'096)};
  const std::string stored = EncodeInput(large);
  const std::vector<std::string_view> inputs(8, stored);
  const auto decode_in_little = [&] {
    std::ifstream status("/proc/self/status");
    rlim_t used_kib = 0;
    for (std::string word; status >> word;) {
      if (word == "VmData:") status >> used_kib;
    }
    const rlim_t limit = (used_kib << 10) + (rlim_t{64} << 20);  // less than one input takes
    const rlimit little{limit, limit};
    setrlimit(RLIMIT_DATA, &little);
    EmbedSetup setup;
    setup.decode_threads = 4;
    const auto decoder = InputEncoder::Load(setup);
    for (const auto& output : decoder->Embed(inputs)) {
      if (output.status().code() != Code::kResourceExhausted) _exit(1);
    }
    _exit(0);
  };
  EXPECT_EXIT(decode_in_little(), testing::ExitedWithCode(0), "");
}
#endif

TEST(EmbedFrames, BodiesComeBackAsTheyWereAndNoPartOfOneIsABody) {
  EmbedSetup setup{"/a/path", "{}", 7, 3, 64, 1 << 20, 5};
  const std::string setup_body = EncodeSetup(setup);
  EXPECT_EQ(DecodeSetup(setup_body)->encoder_path, setup.encoder_path);
  EXPECT_EQ(DecodeSetup(setup_body)->manifest_json, setup.manifest_json);
  EXPECT_EQ(DecodeSetup(setup_body)->generation, 7u);
  EXPECT_EQ(DecodeSetup(setup_body)->threads, 3);
  EXPECT_EQ(DecodeSetup(setup_body)->decode_threads, 5);
  setup.decode_threads = 0;
  EXPECT_TRUE(Fails(DecodeSetup(EncodeSetup(setup)), Code::kDataLoss, {"no setup"}));
  const std::vector<std::string> inputs = {"one", "", "three"};
  const std::string inputs_body = EncodeInputs(9, inputs);
  const auto decoded = DecodeInputs(inputs_body);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->number, 9u);
  EXPECT_EQ(std::vector<std::string>(decoded->inputs.begin(), decoded->inputs.end()), inputs);
  EmbeddedInputs outputs;
  outputs.emplace_back(std::vector<float>{1, 2});
  outputs.emplace_back(FieldError(Code::kResourceExhausted, "image", "9 bytes", "8"));
  outputs.emplace_back(Internal(std::string(5'000, 'x') + "what happened"));
  const std::string vectors_body = EncodeVectors(9, outputs);
  EXPECT_LE(vectors_body.size(), VectorsBytesMax(3, 2));
  const auto back = DecodeVectors(vectors_body, 9, 3, 2);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*(*back)[0], *outputs[0]);
  EXPECT_TRUE(Fails((*back)[1], Code::kResourceExhausted, {"image", "9 bytes", "8"}));
  EXPECT_EQ(PartsOf((*back)[1].status()).field, "image") << "it is the input's fault";
  EXPECT_TRUE(Fails((*back)[2], Code::kInternal, {"xwhat happened"}));
  outputs[2] = Internal("caf\xe9");
  EXPECT_TRUE(Fails((*DecodeVectors(EncodeVectors(9, outputs), 9, 3, 2))[2], Code::kInternal, {"caf?"}));
  EXPECT_TRUE(Fails(DecodeVectors(vectors_body, 8, 3, 2), Code::kDataLoss, {"an answer to 9", "expected: to 8"}));
  EXPECT_TRUE(Fails(DecodeVectors(vectors_body, 9, 2, 2), Code::kDataLoss, {"for 3 inputs", "for 2"}));
  EXPECT_TRUE(Fails(DecodeVectors(vectors_body, 9, 3, 3), Code::kDataLoss, {"8 bytes; expected: 12"}));
  const auto refused = [](const auto& decode, const std::string& body) {
    for (size_t i = 0; i < body.size(); ++i) EXPECT_FALSE(decode(body.substr(0, i)).ok()) << i << " bytes";
    EXPECT_FALSE(decode(body + "x").ok());
  };
  refused([](const std::string& body) { return DecodeSetup(body); }, setup_body);
  refused([](const std::string& body) { return DecodeInputs(body); }, inputs_body);
  refused([](const std::string& body) { return DecodeVectors(body, 9, 3, 2); }, vectors_body);
  refused([](const std::string& body) { return DecodeReady(body); }, EncodeReady(absl::OkStatus()));
  EXPECT_TRUE(Fails(DecodeReady(EncodeReady(NotFound("gone"))), Code::kNotFound, {"gone"}));
}

// --- The connection.

class TalkingTest : public ::testing::Test {
 protected:
  std::unique_ptr<TalkingChild> Started(const std::string& script) {
    auto child = TalkingChild::Start({{"/bin/sh", "-c", script}, {}, folder_.path() + "/said", 0});
    EXPECT_TRUE(child.ok()) << child.status();
    (*child)->Allow(absl::Minutes(1), [] { return false; });
    return *std::move(child);
  }
  TemporaryFolder folder_;
};

TEST_F(TalkingTest, WhatIsWrittenIsReadAndWhatEndsOrHangsIsTold) {
  const std::string many(3 << 20, 'x');
  auto echo = Started("head -c 3145728 | wc -c; exec cat");
  EXPECT_TRUE(echo->Write(many).ok());
  std::string back(8, ' ');
  EXPECT_TRUE(echo->Read(back.data(), back.size()).ok());
  EXPECT_EQ(back, "3145728\n");
  EXPECT_FALSE(echo->Gone());
  echo->Allow(absl::Milliseconds(100), [] { return false; });
  EXPECT_TRUE(Fails(echo->Read(back.data(), 1), Code::kDeadlineExceeded, {"0.1 s"}));
  echo->Allow(absl::Minutes(1), [] { return true; });
  EXPECT_EQ(echo->Read(back.data(), 1).code(), Code::kCancelled);
  EXPECT_EQ(echo->End(absl::ZeroDuration()), 128 + SIGKILL);
  EXPECT_TRUE(echo->Gone());
  auto ends = Started("echo last words >&2; exit 7");
  EXPECT_EQ(ends->Read(back.data(), 1).code(), Code::kAborted);
  EXPECT_TRUE(ends->Gone());
  EXPECT_EQ(ends->Write(many).code(), Code::kAborted) << "and no SIGPIPE";
  EXPECT_EQ(ends->End(absl::Minutes(1)), 7);
  EXPECT_EQ(LastWords(folder_.path() + "/said"), "last words");
  auto long_one =
      Started("i=0; while [ $i -lt 2000 ]; do printf '\\303\\244\\303\\244 ' >&2; i=$((i+1)); done; kill -9 $$");
  EXPECT_EQ(long_one->End(absl::Minutes(1)), 128 + SIGKILL);
  const std::string said = LastWords(folder_.path() + "/said");
  EXPECT_LE(said.size(), 500u);
  EXPECT_TRUE(IsUtf8(said));
  EXPECT_EQ(said.find('?'), std::string::npos) << "cut between characters: " << said;
  EXPECT_EQ(TalkingChild::Start({{"/no/such"}, {}, folder_.path() + "/said", 0}).status().code(), Code::kUnavailable);
}

TEST(Children, LeaveNoCoreAndNoFileLongerThanTheyMay) {
  const TemporaryFolder folder;
  ChildProgram program;
  program.output = folder.path() + "/said.txt";
  program.file_bytes_max = 1 << 20;
  // The shell's limits, then a file without end.
  program.words = {"/bin/sh", "-c", "ulimit -c; exec cat /dev/zero"};
  const auto code = RunChild(program, [] { return false; });
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 128 + SIGXFSZ);
  const std::string said = ReadFile(program.output).value_or("");
  EXPECT_EQ(said.substr(0, 2), "0\n");
  EXPECT_EQ(said.size(), size_t{1} << 20);
}

TEST_F(TalkingTest, AnAnswerThatComesByteByByteHasNoMoreTimeThanAnother) {
  auto trickles = Started("while printf x; do :; done");
  std::string many(64 << 20, ' ');
  trickles->Allow(absl::Milliseconds(200), [] { return false; });
  EXPECT_TRUE(Fails(trickles->Read(many.data(), many.size()), Code::kDeadlineExceeded, {"0.2 s"}));
}

}  // namespace
}  // namespace lightcone::server
