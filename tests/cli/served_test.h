// What tests of commands against a server share: one server a suite, in a process of its own.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "cli/child_server.h"
#include "tests/cli/run_program.h"

namespace lightcone::cli {

class ServedTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    auto server = ChildServer::Start(Binary(), *folder_ / "data", {"--helper-niceness", "0"});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = server->release();
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(server_->Terminate(), 0) << "a server that is asked to end drains and ends well";
    delete std::exchange(server_, nullptr);
    delete std::exchange(folder_, nullptr);
  }

  Outcome Run(std::vector<std::string> words) {
    words.insert(words.end(), {"--server", server_->address()});
    return RunHere(scratch_, words);
  }
  std::string Put(const std::string& name, const std::string& content) {
    EXPECT_TRUE(WriteFileAtomically(scratch_ / name, content).ok());
    return scratch_ / name;
  }

  static inline TemporaryFolder* folder_ = nullptr;
  static inline ChildServer* server_ = nullptr;
  TemporaryFolder scratch_;
};

}  // namespace lightcone::cli
