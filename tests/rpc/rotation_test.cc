// Keys that are replaced while calls run.
#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "lightcone/v1/retrieval.grpc.pb.h"
#include "tests/rpc/keys_fixture.h"

namespace lightcone::server {
namespace {

class RotationTest : public KeysTest {
 protected:
  struct Held {
    absl::Notification began, go_on;
  };

  RotationTest() {
    engine_.on_search = [this](const SearchCall& call, const CallContext&) {
      if (call.collection == "held") {
        Held* const held = held_.load();
        held->began.Notify();
        held->go_on.WaitForNotification();
      }
      return SearchAnswer{};
    };
  }

  grpc::Status Search(const std::string& key, const std::string& collection = "c") {
    const auto stub = v1::Retrieval::NewStub(channel_);
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
    context.AddMetadata("authorization", "Bearer " + key);
    v1::SearchRequest request;
    request.set_collection(collection);
    v1::SearchResponse response;
    return stub->Search(&context, request, &response);
  }

  std::atomic<Held*> held_{nullptr};
};

TEST_F(RotationTest, NoCallFailsThatBeganBeforeAndNoneWithAnOldKeySucceedsAfter) {
  std::vector<std::string> lines;
  for (int i = 0; i < 4; ++i)
    lines.push_back(KeyLine("rolling", auth::kRead, {"*"}, absl::InfiniteFuture(), StrCat("k", i)));
  Serve(lines[0] + KeyLine("steady", auth::kRead));
  // Two callers whose key stays.
  std::atomic<bool> stop{false};
  std::atomic<int> calls{0}, failed{0};
  std::vector<std::thread> load;
  for (int i = 0; i < 2; ++i) {
    load.emplace_back([&] {
      while (!stop.load()) {
        if (!Search("steady-key").ok()) ++failed;
        ++calls;
      }
    });
  }
  for (int i = 0; i + 1 < 4; ++i) {
    const std::string old_key = StrCat("k", i), new_key = StrCat("k", i + 1);
    Write(lines[i] + lines[i + 1] + KeyLine("steady", auth::kRead));
    AwaitReloads(2 * i + 1);
    EXPECT_TRUE(Search(old_key).ok());
    EXPECT_TRUE(Search(new_key).ok());
    // A call with the old key that is under way while its key goes.
    Held held;
    held_.store(&held);
    std::thread slow([&] { EXPECT_TRUE(Search(old_key, "held").ok()); });
    held.began.WaitForNotification();
    Write(lines[i + 1] + KeyLine("steady", auth::kRead));
    AwaitReloads(2 * i + 2);
    EXPECT_EQ(Search(old_key).error_code(), grpc::UNAUTHENTICATED);
    EXPECT_TRUE(Search(new_key).ok());
    held.go_on.Notify();
    slow.join();
  }
  stop.store(true);
  for (std::thread& thread : load) thread.join();
  EXPECT_GT(calls.load(), 0);
  EXPECT_EQ(failed.load(), 0);
}

}  // namespace
}  // namespace lightcone::server
