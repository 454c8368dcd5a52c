// A server whose disk is full: a limit on the size of its files stands for it. Writes are refused, reads go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "cli/child_server.h"
#include "client/client.h"
#include "tests/cli/run_program.h"

namespace lightcone::cli {
namespace {

TEST(FullDisk, WritesAreResourceExhaustedAndReadsGoOn) {
  const TemporaryFolder folder;
  // The server finds that the log of its store may not grow above 2 MiB; as on a full disk, no signal ends it.
  const std::string limited = folder / "limited";
  ASSERT_TRUE(
      WriteFileAtomically(limited, StrCat("#!/bin/bash\ntrap '' XFSZ\nulimit -f 2048\nexec ", Binary(), " \"$@\"\n"))
          .ok());
  std::filesystem::permissions(limited, std::filesystem::perms::owner_all);
  auto server = ChildServer::Start(limited, folder / "data");
  ASSERT_TRUE(server.ok()) << server.status();
  const auto client = client::Client::Connect({.address = (*server)->address()}).value();

  v1::CreateRequest create;
  create.set_name("full");
  create.set_geometry(v1::GEOMETRY_EUCLIDEAN);
  ASSERT_TRUE(client->CreateCollection(create).ok());
  v1::RegisterRequest manifest;
  manifest.set_collection("full");
  manifest.set_manifest_json(R"({"dimension":2})");
  ASSERT_TRUE(client->RegisterGeneration(manifest).ok());
  v1::ActivateRequest activate;
  activate.set_collection("full");
  activate.set_generation(1);
  ASSERT_TRUE(client->ActivateGeneration(activate).ok());

  absl::Status status;
  uint64_t written = 0;
  for (; status.ok() && written < 100; ++written) {
    v1::UpsertRequest request;
    request.set_collection("full");
    v1::Item* item = request.add_items();
    item->mutable_id()->set_number(written);
    const float vector[] = {1, 2};
    client::SetVector(vector, 2, item->mutable_vector());
    item->set_payload_json("{\"text\":\"" + std::string(100'000, static_cast<char>('a' + written % 26)) + "\"}");
    status = client->Upsert(request).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(MessageOf(status), testing::HasSubstr("the disk is full: free some space"));
  --written;  // the last one was refused
  ASSERT_GT(written, 5u);
  v1::CountRequest count;
  count.set_collection("full");
  const auto counted = client->Count(count);
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_EQ(counted->count(), written) << "what was refused is not seen, what was acknowledged is";
  EXPECT_EQ((*server)->Terminate(), 0);
}

}  // namespace
}  // namespace lightcone::cli
