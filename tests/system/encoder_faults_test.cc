// Foreign encoders, registered with a real server. Those that hang, at once or at some inputs, cost their own inputs,
// and neither an operator's call, nor another collection's inputs, nor the end of the server. Those that read or write
// files of the server's user reach none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <torch/script.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/time/clock.h"
#include "base/files.h"
#include "base/status.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "models/manifest.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

using testing::HasSubstr;

constexpr int kSide = 4, kDimension = 4;
constexpr float kHangs = 2'000;
constexpr char kProgram[] = LIGHTCONE_BINARY_DIR "/bin/lightcone";

class EncoderFaults : public testing::Test {
 protected:
  void Start(const std::vector<std::string>& flags, const std::string& program = kProgram) {
    auto server = cli::ChildServer::Start(program, folder_ / "data", flags);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = client::Client::Connect({.address = server_->address(), .retries_max = 0}).value();
    ASSERT_TRUE(client_->WaitUntilServing(absl::Minutes(1)).ok());
  }

  // Hangs at inputs whose number 0 is `mark`; half of the numbers 1 .. 4 else.
  v1::RegisterRequest Encoder(const std::string& collection, float mark) {
    return Foreign(collection, R"(
def forward(self, x):
    for i in range(x.size(0)):
        while int(x[i, 0, 0, 0]) == )" +
                                   std::to_string(static_cast<int>(mark)) +
                                   R"(:
            x = x * 1
    return x.reshape([x.size(0), -1])[:, 1:5] * 0.5
)");
  }
  // A module of these methods.
  v1::RegisterRequest Foreign(const std::string& collection, const std::string& methods) {
    torch::jit::Module module("__torch__.Foreign");
    module.define(methods);
    const std::string path = folder_ / "encoder.pt";
    module.save(path);
    v1::RegisterRequest request;
    request.set_collection(collection);
    *request.mutable_encoder() = ReadFile(path).value();
    Manifest manifest;
    manifest.name = "foreign";
    manifest.architecture = "external";
    manifest.dimension = kDimension;
    manifest.input = {kSide, kSide, 1, {0.0f}, {1.0f}};
    manifest.encoder_crc32c = Crc32c(request.encoder());
    request.set_manifest_json(ToJson(manifest));
    return request;
  }

  void MakeCollection(const std::string& name) {
    v1::CreateRequest create;
    create.set_name(name);
    create.set_geometry(v1::GEOMETRY_LORENTZ);
    create.set_curvature(1.0);
    ASSERT_TRUE(client_->CreateCollection(create).ok());
  }
  // With an encoder that serves and hangs at one kind of input.
  void MakeServed(const std::string& name) {
    MakeCollection(name);
    const auto made = client_->RegisterGeneration(Encoder(name, kHangs));
    ASSERT_TRUE(made.ok()) << made.status();
    Activate(name);
  }
  void Activate(const std::string& name) {
    v1::ActivateRequest activate;
    activate.set_collection(name);
    activate.set_generation(1);
    const auto active = client_->ActivateGeneration(activate, {.timeout = absl::Seconds(10)});
    EXPECT_TRUE(active.ok()) << active.status();
  }
  static void SetInput(float mark, v1::Query* query) {
    std::vector<float> values(kSide * kSide, 0.1f);
    values[0] = mark;
    v1::Tensor* tensor = query->mutable_input()->mutable_tensor();
    for (const uint32_t side : {1, kSide, kSide}) tensor->add_shape(side);
    tensor->set_f32_le(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  v1::SearchResponse Search(const std::string& collection, const std::vector<float>& marks) {
    v1::SearchRequest request;
    request.set_collection(collection);
    request.set_k(1);
    for (const float mark : marks) SetInput(mark, request.add_queries());
    const auto answer = client_->Search(request, {.timeout = absl::Minutes(2)});
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.value_or(v1::SearchResponse());
  }

  TemporaryFolder folder_;
  std::unique_ptr<cli::ChildServer> server_;
  std::unique_ptr<client::Client> client_;
};

TEST_F(EncoderFaults, AnInputAtWhichTheEncoderHangsFailsAloneAndOtherCollectionsEmbedMeanwhile) {
  Start({"--encoder-run-seconds-max", "4"});
  MakeServed("hangs");
  MakeServed("works");
  EXPECT_FALSE(Search("works", {1}).results(0).has_error());
  std::thread caller([&] {
    const v1::SearchResponse answer = Search("hangs", {1, kHangs});
    ASSERT_EQ(answer.results_size(), 2);
    EXPECT_FALSE(answer.results(0).has_error());
    EXPECT_THAT(answer.results(1).error().message(), HasSubstr("queries[1].input"));
    EXPECT_THAT(answer.results(1).error().message(), HasSubstr("took longer than 4 s"));
    EXPECT_THAT(answer.results(1).error().message(), HasSubstr("encoder.run_seconds_max"));
  });
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(Search("works", {1}).results(0).has_error());
  caller.join();
}

TEST_F(EncoderFaults, EncodersThatHangAtOnceAreRefusedWhileOperatorsGoOn) {
  Start({"--encoder-run-seconds-max", "10"});
  MakeServed("works");
  MakeCollection("c");
  const v1::RegisterRequest request = Encoder("c", 0);
  std::atomic<int> refused{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      const auto made = client_->RegisterGeneration(request, {.timeout = absl::Minutes(2)});
      const std::string said = MessageOf(made.status());
      EXPECT_FALSE(made.ok());
      const bool at_once = absl::IsResourceExhausted(made.status());
      if (!at_once) {
        EXPECT_THAT(said, HasSubstr("encoder.run_seconds_max"));
      }
      ++refused;
    });
  }
  absl::SleepFor(absl::Seconds(2));
  EXPECT_LT(refused.load(), 4) << "some are being tried";
  Activate("works");
  MakeCollection("another");
  EXPECT_FALSE(Search("works", {1}).results(0).has_error());
  for (std::thread& caller : callers) caller.join();
}

TEST_F(EncoderFaults, ASignalEndsTheServerWhateverEncodersDo) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    Start({"--encoder-run-seconds-max", "3600", "--drain-seconds", "1"});
    MakeCollection(StrCat("c", signal));
    const v1::RegisterRequest request = Encoder(StrCat("c", signal), 0);
    std::vector<std::thread> callers;
    for (int i = 0; i < 4; ++i) {
      callers.emplace_back(
          [&] { EXPECT_FALSE(client_->RegisterGeneration(request, {.timeout = absl::Minutes(2)}).ok()); });
    }
    absl::SleepFor(absl::Seconds(3));
    const pid_t pid = server_->pid();
    server_->Release();
    ASSERT_EQ(kill(pid, signal), 0);
    int state = 0;
    pid_t ended = 0;
    for (const absl::Time limit = absl::Now() + absl::Seconds(20); ended == 0 && absl::Now() < limit;) {
      ended = waitpid(pid, &state, WNOHANG);
      absl::SleepFor(absl::Milliseconds(20));
    }
    EXPECT_EQ(ended, pid);
    if (ended == 0) kill(pid, SIGKILL);
    EXPECT_TRUE(WIFEXITED(state) && WEXITSTATUS(state) == 0) << "it drains: " << state;
    for (std::thread& caller : callers) caller.join();
  }
}

// Encoders that reach for files. Each does so with its first input, at registration, but the one that waits for inputs
// of a kind.
class FilesOfTheServer : public EncoderFaults {
 protected:
  static constexpr float kReads = 3'000;

  void SetUp() override {
    const std::vector<float> numbers = {0.125f, 0.25f, 0.375f, 0.5f};
    const std::string bytes(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
    ASSERT_TRUE(WriteFileAtomically(secret_, bytes).ok());
  }
  v1::RegisterRequest ThatReads(const std::string& collection) {
    return Foreign(collection, StrCat(R"(
def forward(self, x):
    return torch.zeros([x.size(0), 4]) + torch.from_file(")",
                                      secret_, R"(", False, 4)
)"));
  }
  v1::RegisterRequest ThatReadsLater(const std::string& collection) {
    return Foreign(collection, StrCat(R"(
def forward(self, x):
    z = x.reshape([x.size(0), -1])[:, 1:5] * 0.5
    for i in range(x.size(0)):
        if int(x[i, 0, 0, 0]) == 3000:
            z = z * 0.0 + torch.from_file(")",
                                      secret_, R"(", False, 4)
    return z
)"));
  }
  v1::RegisterRequest ThatWrites(const std::string& collection) {
    return Foreign(collection, StrCat(R"(
def forward(self, x):
    torch.save(x, ")",
                                      written_, R"(")
    return x.reshape([x.size(0), -1])[:, 1:5] * 0.5
)"));
  }
  // A tensor that is shared with a file makes the file, and here that happens while the module is loaded.
  v1::RegisterRequest ThatWritesWhenItIsLoaded(const std::string& collection) {
    return Foreign(collection, StrCat(R"(
def __getstate__(self):
    return 1
def __setstate__(self, state: int):
    assert float(torch.from_file(")",
                                      written_, R"(", True, 4).sum()) == 0.0, "it is new"
def forward(self, x):
    return x.reshape([x.size(0), -1])[:, 1:5] * 0.5
)"));
  }
  absl::Status Register(const v1::RegisterRequest& request) {
    return client_->RegisterGeneration(request, {.timeout = absl::Minutes(2)}).status();
  }

  const std::string secret_ = folder_ / "secret", written_ = folder_ / "written";
};

// "require": a build with a sanitizer, whose encoders cannot be locked in, refuses all of them.
TEST_F(FilesOfTheServer, AreNeitherReadNorWrittenByAnEncoderThatIsRegistered) {
  Start({"--encoder-sandbox", "require"});
  MakeCollection("c");
  EXPECT_FALSE(Register(ThatReads("c")).ok());
  EXPECT_FALSE(Register(ThatWritesWhenItIsLoaded("c")).ok());
  EXPECT_FALSE(std::filesystem::exists(written_)) << "while it was loaded";
  Register(ThatWrites("c")).IgnoreError();  // torch.save tells nobody that it could not
  EXPECT_FALSE(std::filesystem::exists(written_)) << "when it was tried";
}

TEST_F(FilesOfTheServer, AreNotReadByAnEncoderThatServesAndTheInputFailsAlone) {
#ifndef LIGHTCONE_SANITIZED
  Start({"--encoder-sandbox", "require"});
  MakeCollection("c");
  const absl::Status made = Register(ThatReadsLater("c"));
  ASSERT_TRUE(made.ok()) << made;
  Activate("c");
  const v1::SearchResponse answer = Search("c", {1, kReads, 2});
  ASSERT_EQ(answer.results_size(), 3);
  EXPECT_FALSE(answer.results(0).has_error()) << answer.results(0).error().message();
  EXPECT_FALSE(answer.results(2).has_error()) << answer.results(2).error().message();
  EXPECT_THAT(answer.results(1).error().message(), HasSubstr("queries[1].input"));
#endif
}

// What the tests above try does reach files where nothing keeps it from them.
TEST_F(FilesOfTheServer, AreReadAndWrittenWhereAnOperatorTurnsTheSandboxOff) {
  Start({"--encoder-sandbox", "off"});
  for (const char* name : {"reads", "loads", "writes"}) MakeCollection(name);
  const absl::Status made = Register(ThatReads("reads"));
  EXPECT_TRUE(made.ok()) << made;
  EXPECT_FALSE(std::filesystem::exists(written_));
  Register(ThatWritesWhenItIsLoaded("loads")).IgnoreError();
  EXPECT_TRUE(std::filesystem::exists(written_)) << "while it was loaded";
  std::filesystem::remove(written_);
  Register(ThatWrites("writes")).IgnoreError();
  EXPECT_TRUE(std::filesystem::exists(written_)) << "when it was tried";
}

TEST_F(EncoderFaults, AServerThatWasStartedDeafToHangupsOutlivesThem) {
  const std::string program = folder_ / "deaf";
  ASSERT_TRUE(WriteFileAtomically(program, StrCat("#!/bin/sh\ntrap '' HUP\nexec ", kProgram, " \"$@\"\n")).ok());
  ASSERT_EQ(chmod(program.c_str(), 0755), 0);
  Start({}, program);
  std::ifstream status(StrCat("/proc/", server_->pid(), "/status"));
  uint64_t ignored = 0;
  for (std::string word; status >> word;) {
    if (word == "SigIgn:") status >> std::hex >> ignored;
  }
  EXPECT_TRUE(ignored & (uint64_t{1} << (SIGHUP - 1))) << "as nohup leaves it";
  ASSERT_EQ(kill(server_->pid(), SIGHUP), 0);
  MakeCollection("c");
  EXPECT_EQ(server_->Terminate(), 0);
}

}  // namespace
}  // namespace lightcone
