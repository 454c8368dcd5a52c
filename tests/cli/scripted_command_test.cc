// Commands against a server of the test's: what they do when their output cannot be written, and how long they wait.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/files.h"
#include "base/strings.h"
#include "lightcone/v1/collections.grpc.pb.h"
#include "lightcone/v1/retrieval.grpc.pb.h"
#include "tests/cli/run_program.h"

namespace lightcone::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Its scroll never ends; of the calls that may wait it notes whether they have a deadline.
class EndlessServer : public v1::Retrieval::Service, public v1::Collections::Service {
 public:
  EndlessServer() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(static_cast<v1::Retrieval::Service*>(this));
    builder.RegisterService(static_cast<v1::Collections::Service*>(this));
    server_ = builder.BuildAndStart();
    address_ = StrCat("127.0.0.1:", port);
  }
  ~EndlessServer() override { server_->Shutdown(std::chrono::system_clock::now()); }
  const std::string& address() const { return address_; }
  std::vector<bool> deadlines() const {
    absl::MutexLock lock(&mutex_);
    return deadlines_;
  }

  grpc::Status Scroll(grpc::ServerContext*, const v1::ScrollRequest*,
                      grpc::ServerWriter<v1::ScrollResponse>* writer) override {
    v1::ScrollResponse page;
    for (uint64_t i = 0;; ++i) {
      page.Clear();
      page.add_items()->mutable_id()->set_number(i);
      page.set_token("more");
      if (!writer->Write(page)) return grpc::Status::OK;
    }
  }
  grpc::Status Rebuild(grpc::ServerContext* context, const v1::RebuildRequest*, v1::RebuildResponse*) override {
    return Note(*context);
  }
  grpc::Status IndexPayload(grpc::ServerContext* context, const v1::IndexPayloadRequest*,
                            v1::IndexPayloadResponse*) override {
    return Note(*context);
  }

 private:
  grpc::Status Note(const grpc::ServerContext& context) {
    absl::MutexLock lock(&mutex_);
    deadlines_.push_back(context.deadline() != std::chrono::system_clock::time_point::max());
    return grpc::Status::OK;
  }

  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  mutable absl::Mutex mutex_;
  std::vector<bool> deadlines_ ABSL_GUARDED_BY(mutex_);
};

class ScriptedCommand : public testing::Test {
 protected:
  // The command's exit code, where `rest` takes its output.
  int Shell(const std::string& words, const std::string& rest) {
    const std::string script = scratch_ / "script";
    EXPECT_TRUE(WriteFileAtomically(script, StrCat("timeout 60 ", Binary(), " ", words, " --server ", server_.address(),
                                                   " 2> ", scratch_ / "stderr", " ", rest, "\nexit ${PIPESTATUS[0]}\n"))
                    .ok());
    return WEXITSTATUS(std::system(StrCat("bash ", script).c_str()));
  }
  std::string Errors() { return ReadFile(scratch_ / "stderr").value(); }

  EndlessServer server_;
  TemporaryFolder scratch_;
};

TEST_F(ScriptedCommand, AScrollEndsQuietlyWhenItsReaderGoesAway) {
  EXPECT_EQ(Shell("scroll gallery --json --limit 0", "| head -n 3 > /dev/null"), 141);
  EXPECT_EQ(Errors(), "");
}

TEST_F(ScriptedCommand, AScrollEndsWithAnErrorWhenTheDiskIsFull) {
  EXPECT_EQ(Shell("scroll gallery --json --limit 0", "> /dev/full"), 6);
  EXPECT_THAT(Errors(), HasSubstr("standard output"));
}

TEST_F(ScriptedCommand, AFewWordsThatCannotBeWrittenAreAnErrorToo) {
  EXPECT_EQ(Shell("version", "> /dev/full"), 6);
  EXPECT_THAT(Errors(), HasSubstr("standard output"));
}

TEST_F(ScriptedCommand, AWaitThatIsAskedForHasNoDeadlineUnlessATimeoutIsGiven) {
  const std::vector<std::string> rebuild = {"collection", "rebuild", "gallery"},
                                 index = {"collection", "index-payload", "gallery", "--add", "a=float"};
  for (const std::vector<std::string>& command : {rebuild, index}) {
    for (const std::vector<std::string>& flags :
         std::vector<std::vector<std::string>>{{"--wait"}, {"--wait", "--timeout", "20"}, {}}) {
      std::vector<std::string> words = command;
      words.insert(words.end(), flags.begin(), flags.end());
      words.insert(words.end(), {"--server", server_.address()});
      const Outcome outcome = RunHere(scratch_, words);
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    }
  }
  EXPECT_THAT(server_.deadlines(), ElementsAre(false, true, true, false, true, true));
}

}  // namespace
}  // namespace lightcone::cli
