// Snapshots in a bucket: what is sent once is not sent again, what is damaged or refused is named, and a prune deletes
// nothing that a snapshot needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/status.h"
#include "snapshot/s3/access.h"
#include "snapshot/s3/client.h"
#include "snapshot/s3/copy.h"
#include "snapshot/s3/lease.h"
#include "snapshot/s3/prune.h"
#include "snapshot/s3/shelf.h"
#include "snapshot/shelf.h"
#include "store/coding.h"
#include "tests/snapshot/s3_world.h"
#include "tests/support/temporary_folder.h"

namespace lightcone {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using Code = absl::StatusCode;

MATCHER_P2(Fails, code, text, "") {
  *result_listener << arg.ToString();
  return arg.code() == code && MessageOf(arg).find(text) != std::string::npos;
}

constexpr size_t kPartBytes = size_t{1} << 20;

// Three files: an empty one, a small one, and one of four parts.
std::vector<std::pair<std::string, std::string>> FilesOf(const std::string& changed) {
  std::string large(3 * kPartBytes + 5, 'x');
  for (size_t i = 0; i < large.size(); i += 1'000) large[i] = static_cast<char>('a' + i / 1'000 % 26);
  return {{"encoders/1/1.pt", ""}, {"index/1/index.json", changed}, {"store/000012.sst", large}};
}

class S3Test : public testing::Test {
 protected:
  S3Test() : client_(Connect()), bucket_(*client_, "lc/main") {}

  void Make(const std::string& name, const std::string& changed, int64_t time_us = 1'000'000) {
    MakeOf(name, FilesOf(changed), time_us);
  }
  void MakeOf(const std::string& name, const std::vector<std::pair<std::string, std::string>>& files, int64_t time_us) {
    const auto partial = shelf_.Begin(name);
    ASSERT_TRUE(partial.ok()) << partial.status();
    SnapshotManifest manifest;
    manifest.name = name;
    manifest.version = "0.1.0";
    manifest.time_us = time_us;
    manifest.collections = {{"photos", 3, 5, 1}};
    for (const auto& [path, text] : files) {
      const std::string place = StrCat(*partial, "/data/", path);
      fs::create_directories(fs::path(place).parent_path());
      ASSERT_TRUE(WriteFileAtomically(place, text).ok());
      manifest.files.push_back({path, text.size(), Crc32c(text)});
    }
    const absl::Status made = shelf_.Commit(name, EncodeSnapshotManifest(manifest));
    ASSERT_TRUE(made.ok()) << made;
  }
  std::unique_ptr<S3Client> Connect(const std::string& secret = StubStore::kSecret,
                                    const std::string& bucket = StubStore::kBucket) {
    S3ClientOptions options;
    options.endpoint = {store_.url(), "eu-test-1", ""};
    options.credentials = {StubStore::kKeyId, secret, StubStore::kToken};
    options.bucket = bucket;
    options.pause = absl::Milliseconds(1);
    options.tries = 3;
    return S3Client::Make(std::move(options)).value();
  }
  absl::StatusOr<SnapshotCopy> Copy(const std::string& name) {
    return CopySnapshotToS3(shelf_.PathOf(name), bucket_, {.part_bytes = kPartBytes});
  }
  void MakeAndCopy(const std::string& name, const std::string& changed, int64_t time_us = 1'000'000) {
    Make(name, changed, time_us);
    const auto copied = Copy(name);
    ASSERT_TRUE(copied.ok()) << copied.status();
  }
  absl::Status Restore(const std::string& name) {
    return RestoreSnapshotFromS3(bucket_, name, folder_ / "new").status();
  }
  void ExpectNothingRestored() {
    EXPECT_FALSE(fs::exists(folder_ / "new"));
    EXPECT_FALSE(fs::exists(folder_ / ".new.restoring"));
  }
  void ExpectRestored(const std::string& name, const std::string& changed) {
    const absl::Status restored = Restore(name);
    ASSERT_TRUE(restored.ok()) << restored;
    for (const auto& [path, text] : FilesOf(changed)) {
      EXPECT_EQ(ReadFile(StrCat(folder_ / "new", "/", path)).value(), text) << path;
    }
    fs::remove_all(folder_ / "new");
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    const std::vector<ShelvedSnapshot> all = bucket_.List().value();  // not in the loop's head: it would be gone
    for (const ShelvedSnapshot& one : all) names.push_back(one.name);
    return names;
  }
  static std::string KeyOf(const std::string& path, const std::string& text) {
    char checksum[9];
    std::snprintf(checksum, sizeof checksum, "%08x", Crc32c(text));
    return StrCat("lc/main/files/", path, "/", text.size(), "-", checksum);
  }
  static std::string ManifestKey(const std::string& name) {
    return StrCat("lc/main/snapshots/", name, "/manifest.json");
  }
  // The store got the manifest `age` ago.
  void SetAge(const std::string& name, absl::Duration age) {
    store_.Change(ManifestKey(name), [age](StubStore::Object& object) { object.modified = absl::Now() - age; });
  }
  // The store refuses a method on keys that end so.
  void RefuseOn(const std::string& method, const std::string& end, int status, const std::string& code) {
    store_.SetIntercept([=](const httplib::Request& request, const std::string& key, httplib::Response& response) {
      if (request.method != method || !key.ends_with(end)) return false;
      StubStore::Refuse(status, code, "No", response);
      return true;
    });
  }
  std::string LargeKey() { return KeyOf("store/000012.sst", FilesOf("")[2].second); }
  static size_t BytesSent(const std::vector<StubStore::Seen>& seen) {
    size_t bytes = 0;
    for (const StubStore::Seen& one : seen) bytes += one.body_bytes;
    return bytes;
  }

  TemporaryFolder folder_;
  const SnapshotShelf shelf_{folder_ / "shelf"};
  StubStore store_;
  const std::unique_ptr<S3Client> client_;
  const S3Shelf bucket_;
};

TEST_F(S3Test, TheStoreOfTheseTestsSignsAsInAmazonsOwnExample) {
  const std::map<std::string, std::string> headers = {{"host", "examplebucket.s3.amazonaws.com"},
                                                      {"range", "bytes=0-9"},
                                                      {"x-amz-content-sha256", HexOf(Sha256Of(""))},
                                                      {"x-amz-date", "20130524T000000Z"}};
  SignedRequest request;
  request.method = "GET";
  request.path = "/test.txt";
  for (const auto& [name, value] : headers) request.signed_headers.push_back(name);
  request.header = [&headers](const std::string& name) { return headers.at(name); };
  request.scope = "20130524/us-east-1/s3/aws4_request";
  EXPECT_EQ(SignatureOf(request, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

// Whatever stands in them, all files of one size that end in their own checksum have one checksum.
TEST_F(S3Test, SnapshotsShareNoFileThatEndsInItsOwnChecksum) {
  const auto sealed = [](std::string text) {
    coding::AppendLittle(&text, Crc32c(text));
    return text;
  };
  MakeAndCopy("monday", sealed("one"));
  MakeAndCopy("tuesday", sealed("two"));
  EXPECT_TRUE(bucket_.Verify("monday", {}).ok());
  ExpectRestored("tuesday", sealed("two"));
  ExpectRestored("monday", sealed("one"));
  const auto pruned = PruneS3(bucket_, {.keep = 1, .age_min = absl::ZeroDuration()});
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_EQ(pruned->deleted_files, 1u);
  ExpectRestored("tuesday", sealed("two"));
}

TEST_F(S3Test, ARestoreEqualsWhatWasCopied) {
  MakeAndCopy("monday", "one");
  EXPECT_THAT(store_.Keys(""), ElementsAre(KeyOf("encoders/1/1.pt", ""), KeyOf("index/1/index.json", "one"), LargeKey(),
                                           "lc/main/snapshots/monday/manifest.json"));
  EXPECT_EQ(store_.objects()[LargeKey()].body, FilesOf("one")[2].second) << "four parts";
  EXPECT_TRUE(bucket_.Verify("monday", {}).ok());
  ExpectRestored("monday", "one");
}

TEST_F(S3Test, TheSameSnapshotIsCopiedAgainWithoutHarmAndAnotherOneOfItsNameIsRefused) {
  store_.Change(ManifestKey("monday") + ".old", [](StubStore::Object& object) { object = {"x", absl::Now()}; });
  MakeAndCopy("monday", "one");
  store_.Remove(LargeKey());
  store_.TakeSeen();
  const auto again = Copy("monday");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->shared_files, 2u);
  for (const StubStore::Seen& one : store_.TakeSeen()) {
    EXPECT_FALSE(one.method == "PUT" && one.key == ManifestKey("monday")) << "it keeps its time";
  }
  ExpectRestored("monday", "one");
  ASSERT_TRUE(shelf_.Delete("monday").ok());
  Make("monday", "two");
  EXPECT_THAT(Copy("monday").status(), Fails(Code::kAlreadyExists, "'monday' exists in s3://backups/lc/main"));
  EXPECT_THAT(store_.Keys("lc/main/leases/"), IsEmpty());
}

TEST_F(S3Test, AFileOfOneWholePartIsOneRequestAndOneOfTwoIsTwoParts) {
  const std::string one(kPartBytes, 'a'), two(2 * kPartBytes, 'b');
  MakeOf("monday", {{"store/1.sst", one}, {"store/2.sst", two}}, 1);
  const auto copied = Copy("monday");
  ASSERT_TRUE(copied.ok()) << copied.status();
  const auto sent = [seen = store_.TakeSeen()](const std::string& key) {
    std::vector<std::string> methods;
    for (const StubStore::Seen& each : seen) {
      if (each.key == key) methods.push_back(each.method);
    }
    return methods;
  };
  EXPECT_THAT(sent(KeyOf("store/1.sst", one)), ElementsAre("PUT"));
  EXPECT_THAT(sent(KeyOf("store/2.sst", two)), ElementsAre("POST", "PUT", "PUT", "POST"));
  EXPECT_EQ(store_.objects()[KeyOf("store/2.sst", two)].body, two);
  EXPECT_TRUE(bucket_.Verify("monday", {}).ok());
}

TEST_F(S3Test, ALostAnswerToTheEndOfAnUploadIsNoFault) {
  Make("monday", "one");
  int ended = 0;
  store_.SetAfter([&ended](const httplib::Request& request, const std::string&, auto&, httplib::Response& response) {
    if (request.method != "POST" || !request.has_param("uploadId") || ++ended > 1) return;
    StubStore::Refuse(503, "SlowDown", "The answer was lost", response);
  });
  const auto copied = Copy("monday");
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_EQ(ended, 2);
  ExpectRestored("monday", "one");
}

TEST_F(S3Test, AnErrorBehindStatus200IsAnError) {
  Make("monday", "one");
  store_.SetIntercept([](const httplib::Request& request, const std::string&, httplib::Response& response) {
    if (request.method != "POST" || !request.has_param("uploadId")) return false;
    StubStore::Refuse(200, "InternalError", "Try again", response);
    return true;
  });
  EXPECT_THAT(Copy("monday").status(), Fails(Code::kUnavailable, "200 InternalError: Try again"));
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_EQ(store_.uploads(), 0u);
}

TEST_F(S3Test, AManifestWhoseFilesVanishedMeanwhileIsTakenBack) {
  Make("monday", "one");
  store_.SetAfter([this](const httplib::Request& request, const std::string& key, auto& objects, httplib::Response&) {
    if (request.method == "PUT" && key == ManifestKey("monday")) objects.erase(LargeKey());
  });
  EXPECT_THAT(Copy("monday").status(),
              Fails(Code::kDataLoss, StrCat("'store/000012.sst' is missing (object '", LargeKey(), "')")));
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(S3Test, ARefusalEndsAVerificationAndIsNoDamage) {
  MakeAndCopy("monday", "one");
  RefuseOn("GET", KeyOf("index/1/index.json", "one"), 403, "AccessDenied");
  store_.TakeSeen();
  const absl::Status refused = bucket_.Verify("monday", {}).status();
  EXPECT_THAT(refused, Fails(Code::kPermissionDenied, "403 AccessDenied: No"));
  EXPECT_THAT(MessageOf(refused), Not(HasSubstr("damaged")));
  for (const StubStore::Seen& one : store_.TakeSeen()) EXPECT_NE(one.key, LargeKey());
}

TEST_F(S3Test, AManifestUnderAnotherNameIsDamaged) {
  MakeAndCopy("monday", "one");
  const std::string text = store_.objects()[ManifestKey("monday")].body;
  store_.Change(ManifestKey("tuesday"), [&text](StubStore::Object& object) {
    object.body = text;
    object.modified = absl::Now();
  });
  EXPECT_THAT(Restore("tuesday"), Fails(Code::kDataLoss, "it is of snapshot 'monday'"));
  EXPECT_THAT(PruneS3(bucket_, {.keep = 1}).status(), Fails(Code::kDataLoss, "it is of snapshot 'monday'"));
  EXPECT_THAT(store_.Keys("lc/main/snapshots/"), SizeIs(2));
}

TEST_F(S3Test, ASecondCopySendsOnlyWhatChanged) {
  MakeAndCopy("monday", "one");
  EXPECT_GT(BytesSent(store_.TakeSeen()), 3 * kPartBytes);
  Make("tuesday", "two");
  const auto second = Copy("tuesday");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->copied_files, 1u);
  EXPECT_EQ(second->copied_bytes, 3u);
  EXPECT_EQ(second->shared_files, 2u);
  EXPECT_EQ(second->shared_bytes, 3 * kPartBytes + 5);
  EXPECT_LT(BytesSent(store_.TakeSeen()), 2'000u) << "three bytes and a manifest";
  EXPECT_THAT(Names(), ElementsAre("monday", "tuesday"));
  ExpectRestored("monday", "one");
  ExpectRestored("tuesday", "two");
}

TEST_F(S3Test, ACopyThatIsCutShortIsNoSnapshotAndTheNextOneGoesOnWithIt) {
  Make("monday", "one");
  store_.SetIntercept([](const httplib::Request& request, const std::string& key, httplib::Response& response) {
    if (request.method != "PUT" || !key.ends_with("manifest.json")) return false;
    StubStore::Refuse(403, "AccessDenied", "Access Denied", response);
    return true;
  });
  EXPECT_THAT(Copy("monday").status(),
              Fails(Code::kPermissionDenied, "'lc/main/snapshots/monday/manifest.json' in bucket 'backups'"));
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_THAT(Restore("monday"), Fails(Code::kNotFound, "no snapshot 'monday' in s3://backups/lc/main"));
  EXPECT_THAT(store_.Keys("lc/main/leases/"), IsEmpty());
  store_.SetIntercept({});
  const auto again = Copy("monday");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->shared_files, 3u);
  ExpectRestored("monday", "one");
}

TEST_F(S3Test, PassingFaultsAndLostConnectionsAreTriedAgain) {
  Make("monday", "one");
  int requests = 0, cut = 0;
  store_.SetIntercept([&](const httplib::Request& request, const std::string& key, httplib::Response& response) {
    if (request.method == "PUT" && ++requests % 2 == 1) {
      StubStore::Refuse(503, "SlowDown", "Reduce your request rate.", response);
      return true;
    }
    if (request.method != "GET" || key != LargeKey() || ++cut > 2) return false;
    response.set_content_provider(FilesOf("one")[2].second.size(), "application/octet-stream",
                                  [sent = false](size_t offset, size_t, httplib::DataSink& sink) mutable {
                                    if (std::exchange(sent, true)) return false;  // The connection ends.
                                    const std::string piece = FilesOf("one")[2].second.substr(offset, 1'000);
                                    return sink.write(piece.data(), piece.size());
                                  });
    return true;
  });
  const auto copied = Copy("monday");
  ASSERT_TRUE(copied.ok()) << copied.status();
  ExpectRestored("monday", "one");
  EXPECT_EQ(cut, 3);
}

TEST_F(S3Test, AFaultThatStaysIsNamedAfterTheLastTry) {
  store_.SetIntercept([](const httplib::Request&, const std::string&, httplib::Response& response) {
    StubStore::Refuse(503, "SlowDown", "Reduce your request rate.", response);
    return true;
  });
  EXPECT_THAT(bucket_.List().status(), Fails(Code::kUnavailable, "503 SlowDown: Reduce your request rate."));
  EXPECT_THAT(store_.TakeSeen(), SizeIs(3));
}

TEST_F(S3Test, AWrongSecretIsRefusedByNameAndNoMessageHoldsAKey) {
  const auto wrong = Connect("another-secret");
  const S3Shelf shelf(*wrong, "lc");
  Make("monday", "one");
  for (const absl::Status& status :
       {shelf.List().status(), CopySnapshotToS3(shelf_.PathOf("monday"), shelf).status()}) {
    EXPECT_THAT(status, Fails(Code::kPermissionDenied, "403 SignatureDoesNotMatch: Check your key <[key]>."));
    EXPECT_THAT(status, Fails(Code::kPermissionDenied, StrCat("in bucket 'backups' at ", store_.url())));
    for (const char* const word : {"another-secret", StubStore::kKeyId, StubStore::kToken}) {
      EXPECT_THAT(MessageOf(status), Not(HasSubstr(word)));
    }
  }
  EXPECT_THAT(store_.Keys(""), IsEmpty());
}

TEST_F(S3Test, AMissingBucketIsNamed) {
  const auto elsewhere = Connect(StubStore::kSecret, "nobody");
  Make("monday", "one");
  EXPECT_THAT(CopySnapshotToS3(shelf_.PathOf("monday"), S3Shelf(*elsewhere, "")).status(),
              Fails(Code::kNotFound, "in bucket 'nobody' at http://127.0.0.1:"));
}

TEST_F(S3Test, ADamagedObjectIsNamedAndARestoreLeavesNothing) {
  MakeAndCopy("monday", "one");
  store_.Change(LargeKey(), [](StubStore::Object& object) { object.body[kPartBytes] ^= 1; });
  store_.Change(KeyOf("index/1/index.json", "one"), [](StubStore::Object& object) { object.body[0] ^= 1; });
  const absl::Status damaged = bucket_.Verify("monday", {}).status();
  EXPECT_THAT(damaged, Fails(Code::kDataLoss, "file 'store/000012.sst' has another checksum"));
  EXPECT_THAT(damaged, Fails(Code::kDataLoss, "file 'index/1/index.json' has another checksum"));
  EXPECT_THAT(damaged, Fails(Code::kDataLoss, StrCat("(object '", LargeKey(), "')")));
  EXPECT_THAT(Restore("monday"), Fails(Code::kDataLoss, "file 'index/1/index.json' has another checksum"));
  ExpectNothingRestored();
}

TEST_F(S3Test, WhatIsMissingOrNewerIsRefusedBeforeAnythingIsRead) {
  MakeAndCopy("monday", "one");
  store_.Remove(LargeKey());
  store_.Change(KeyOf("index/1/index.json", "one"), [](StubStore::Object& object) { object.body += "1"; });
  store_.TakeSeen();
  EXPECT_THAT(Restore("monday"), Fails(Code::kDataLoss, "file 'store/000012.sst' is missing"));
  EXPECT_THAT(Restore("monday"),
              Fails(Code::kDataLoss, "file 'index/1/index.json' has 4 bytes; 3 are in the manifest"));
  for (const StubStore::Seen& one : store_.TakeSeen()) EXPECT_THAT(one.key, Not(HasSubstr("files/")));
  EXPECT_THAT(bucket_.Verify("monday", {}).status(), Fails(Code::kDataLoss, "file 'store/000012.sst' is missing"));

  store_.Change("lc/main/snapshots/monday/manifest.json", [](StubStore::Object& object) {
    std::string newer = object.body.substr(object.body.find("\"content\":") + 10);
    newer.resize(newer.rfind('}'));
    newer.replace(newer.find("\"format\":1"), 10, "\"format\":2");
    object.body = StrCat("{\"crc32c\":", Crc32c(newer), ",\"content\":", newer, "}\n");
  });
  const std::string place = "s3://backups/lc/main/snapshots/monday/manifest.json";
  EXPECT_THAT(Restore("monday"), Fails(Code::kFailedPrecondition, StrCat("'", place, "' has format 2")));
  EXPECT_THAT(PruneS3(bucket_, {.keep = 1, .age_min = absl::ZeroDuration()}).status(),
              Fails(Code::kFailedPrecondition, "has format 2"));
  EXPECT_THAT(store_.Keys("lc/main/files/"), SizeIs(2)) << "nobody knows what the newer manifest names";
  ExpectNothingRestored();
}

TEST_F(S3Test, ALocalFileThatIsDamagedBecomesNoObject) {
  for (const char* const path : {"index/1/index.json", "store/000012.sst"}) {
    Make("monday", "one");
    const std::string place = StrCat(shelf_.PathOf("monday"), "/data/", path);
    std::string text = ReadFile(place).value();
    text.back() ^= 1;
    ASSERT_TRUE(WriteFileAtomically(place, text).ok());
    EXPECT_THAT(Copy("monday").status(), Fails(Code::kDataLoss, StrCat("file '", path, "' has another checksum")));
    EXPECT_THAT(store_.Keys(StrCat("lc/main/files/", path)), IsEmpty());
    EXPECT_EQ(store_.uploads(), 0u) << "parts that were sent are given up";
    EXPECT_THAT(Names(), IsEmpty());
    ASSERT_TRUE(shelf_.Delete("monday").ok());
  }
}

TEST_F(S3Test, APruneKeepsTheNewestSnapshotsAndWhatTheyName) {
  // The servers' clocks say another order.
  MakeAndCopy("ahead", "three", absl::ToUnixMicros(absl::Now() + absl::Hours(100)));
  MakeAndCopy("a", "one", 2'000'000);
  MakeAndCopy("b", "two", 1'000'000);
  SetAge("ahead", absl::Minutes(3));
  SetAge("a", absl::Minutes(2));
  SetAge("b", absl::Minutes(1));
  const std::vector<std::string> foreign = {"lc/main/files/left/2-00000001", "lc/main/files/left/notes.txt"};
  for (const std::string& key : {std::string("lc/main/files/left/1-00000001"), foreign[0], foreign[1]}) {
    store_.Change(key, [](StubStore::Object& object) { object = {"x", absl::Now()}; });
  }
  ASSERT_TRUE(client_->BeginParts("lc/main/files/unfinished/9-00000001").ok());
  ASSERT_TRUE(client_->BeginParts("lc/main/files/foreign").ok());

  const auto young = PruneS3(bucket_, {.keep = 1});
  ASSERT_TRUE(young.ok()) << young.status();
  EXPECT_THAT(young->kept, ElementsAre("b"));
  EXPECT_THAT(young->deleted, ElementsAre("a", "ahead"));
  EXPECT_EQ(young->deleted_files, 0u) << "all files are young";
  EXPECT_EQ(young->uploads_left, "");
  EXPECT_EQ(store_.uploads(), 1u) << "the foreign one";

  const auto pruned = PruneS3(bucket_, {.keep = 1, .age_min = absl::ZeroDuration()});
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_EQ(pruned->deleted_files, 3u);
  EXPECT_EQ(pruned->deleted_bytes, 9u) << "'one', 'three' and the file that was left";
  EXPECT_THAT(store_.Keys("lc/main/files/left/"), ElementsAreArray(foreign));
  EXPECT_THAT(store_.Keys("lc/main/leases/"), IsEmpty());
  EXPECT_THAT(Names(), ElementsAre("b"));
  ExpectRestored("b", "two");
}

TEST_F(S3Test, APruneWithoutASnapshotDeletesNothing) {
  MakeAndCopy("monday", "one");
  store_.Remove(ManifestKey("monday"));
  EXPECT_THAT(PruneS3(bucket_, {.keep = 1, .age_min = absl::ZeroDuration()}).status(),
              Fails(Code::kFailedPrecondition, "there is no snapshot in s3://backups/lc/main"));
  EXPECT_THAT(store_.Keys("lc/main/files/"), SizeIs(3));
}

TEST_F(S3Test, APruneThatCannotReadAllOrWouldKeepADamagedSnapshotDeletesNothing) {
  MakeAndCopy("a", "one");
  MakeAndCopy("b", "two");
  SetAge("a", absl::Minutes(2));
  const S3PruneOptions options = {.keep = 1, .age_min = absl::ZeroDuration()};
  RefuseOn("GET", "/a/manifest.json", 404, "NoSuchKey");
  EXPECT_THAT(PruneS3(bucket_, options).status(), Fails(Code::kFailedPrecondition, "it was listed just now"));
  store_.SetIntercept({});
  const std::string gone = KeyOf("index/1/index.json", "two");
  store_.Remove(gone);
  EXPECT_THAT(PruneS3(bucket_, options).status(),
              Fails(Code::kDataLoss, StrCat("'b' is damaged: file 'index/1/index.json' is missing (object '", gone)));
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
  EXPECT_THAT(store_.Keys("lc/main/files/"), SizeIs(3));
}

TEST_F(S3Test, APruneTellsWhatItDeletedBeforeAnErrorAndWhichUploadsItLeft) {
  MakeAndCopy("a", "one");
  MakeAndCopy("b", "two");
  SetAge("a", absl::Minutes(2));
  const std::string file = KeyOf("index/1/index.json", "one");
  const S3PruneOptions options = {.keep = 1, .age_min = absl::ZeroDuration()};
  RefuseOn("DELETE", file, 403, "AccessDenied");
  EXPECT_THAT(PruneS3(bucket_, options).status(),
              Fails(Code::kPermissionDenied, "; 1 snapshots and 0 files were deleted before"));
  store_.SetIntercept([](const httplib::Request& request, const std::string&, httplib::Response& response) {
    if (!request.has_param("uploads")) return false;
    StubStore::Refuse(403, "AccessDenied", "No", response);
    return true;
  });
  const auto pruned = PruneS3(bucket_, options);
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_EQ(pruned->deleted_files, 1u);
  EXPECT_THAT(pruned->uploads_left, HasSubstr("403 AccessDenied"));
}

TEST_F(S3Test, APruneDoesNotRunBesideACopyAndADeadLeaseIsNoneAfterAnHour) {
  MakeAndCopy("monday", "one");
  const auto hold = [this](const char* name, absl::Duration age) {
    store_.Change(StrCat("lc/main/leases/", name),
                  [age](StubStore::Object& object) { object.modified = absl::Now() - age; });
  };
  hold("copy-1", absl::Minutes(59));
  EXPECT_THAT(PruneS3(bucket_, {.keep = 1}).status(), Fails(Code::kAborted, "object 'lc/main/leases/copy-1'"));
  Make("tuesday", "two");
  EXPECT_TRUE(Copy("tuesday").ok()) << "copies run beside each other";
  hold("copy-1", absl::Minutes(61));
  EXPECT_TRUE(PruneS3(bucket_, {.keep = 2}).ok());
  hold("prune-1", absl::Minutes(1));
  Make("wednesday", "three");
  EXPECT_THAT(Copy("wednesday").status(),
              Fails(Code::kAborted, "a prune is under way: object 'lc/main/leases/prune-1'"));
  EXPECT_THAT(PruneS3(bucket_, {.keep = 1}).status(), Fails(Code::kAborted, "'lc/main/leases/prune-1'"));
  EXPECT_THAT(Names(), ElementsAre("monday", "tuesday"));
}

TEST_F(S3Test, AnInterruptEndsACopyAndLeavesNeitherALeaseNorParts) {
  Make("monday", "one");
  bool interrupted = false;
  S3ClientOptions options = client_->options();
  options.cancelled = [&interrupted] { return interrupted; };
  const auto client = S3Client::Make(std::move(options)).value();
  const auto seen = [&interrupted](uint64_t bytes) { interrupted = bytes > kPartBytes; };
  EXPECT_THAT(
      CopySnapshotToS3(shelf_.PathOf("monday"), S3Shelf(*client, "lc/main"), {.part_bytes = kPartBytes, .seen = seen})
          .status(),
      Fails(Code::kCancelled, ""));
  EXPECT_EQ(store_.uploads(), 0u);
  EXPECT_THAT(store_.Keys("lc/main/leases/"), IsEmpty());
}

TEST(S3Access, AnAddressNamesABucketAPrefixAndASnapshot) {
  EXPECT_EQ(ParseS3Url("s3://backups")->Text(), "s3://backups");
  EXPECT_EQ(ParseS3Url("s3://backups/a/b.c/")->prefix, "a/b.c");
  std::string name;
  EXPECT_EQ(ParseS3SnapshotUrl("s3://backups/a/b/monday", &name)->prefix, "a/b");
  EXPECT_EQ(name, "monday");
  EXPECT_EQ(ParseS3SnapshotUrl("s3://backups/monday", &name)->prefix, "");
  for (const char* const wrong : {"backups", "s3://", "s3://ab", "s3://backups//a", "s3://backups/a/../b",
                                  "s3://backups/a b", "s3://backups/a?b", "s3://-backups", "s3:///a"}) {
    EXPECT_THAT(ParseS3Url(wrong).status(), Fails(Code::kInvalidArgument, StrCat("'", wrong, "'"))) << wrong;
  }
  for (const char* const keyed : {"s3://id:SECRET1@backups/a", "https://id:SECRET1@host"}) {
    const absl::Status refused = ParseS3SnapshotUrl(keyed, &name).status();
    EXPECT_THAT(refused, Fails(Code::kInvalidArgument, "not shown"));
    EXPECT_THAT(refused.ToString(), Not(HasSubstr("SECRET1")));
  }
  EXPECT_THAT(ParseS3SnapshotUrl("s3://backups", &name).status(), Fails(Code::kInvalidArgument, "/NAME"));
}

TEST(S3Access, AnEndpointIsAHostAndAmazonsWhereItIsAbsent) {
  EXPECT_EQ(CompleteS3Endpoint({"", "eu-west-1", ""})->url, "https://s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(CompleteS3Endpoint({"http://[::1]:9000/", "x", ""})->url, "http://[::1]:9000");
  for (const char* const wrong : {"host", "ftp://host", "http://", "http://u:p@host", "http://host/path"}) {
    EXPECT_THAT(CompleteS3Endpoint({wrong, "x", ""}).status(), Fails(Code::kInvalidArgument, "--s3-endpoint")) << wrong;
  }
  EXPECT_THAT(CompleteS3Endpoint({"http://id:SECRET1@host", "x", ""}).status().ToString(), Not(HasSubstr("SECRET1")));
  EXPECT_THAT(CompleteS3Endpoint({"", "a:b", ""}).status(), Fails(Code::kInvalidArgument, "--s3-region' is 'a:b'"));
}

TEST(S3Access, CredentialsComeFromAFileAndErrorsHoldNoneOfThem) {
  const TemporaryFolder folder;
  const std::string file = folder / "credentials";
  const auto read = [&](const std::string& text) {
    EXPECT_TRUE(WriteFileAtomically(file, text).ok());
    return ReadS3Credentials(file);
  };
  const auto plain = read("access_key_id = A1\nsecret_access_key=S/+=\n");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->key_id, "A1");
  EXPECT_EQ(plain->secret, "S/+=");
  EXPECT_EQ(read("# mine\n[default]\r\naws_access_key_id = A1\r\naws_secret_access_key = S1\naws_session_token = T=\n")
                ->session_token,
            "T=");
  for (const char* const wrong : {"access_key_id = SECRET1\n", "secret_access_key = SECRET1\n", "SECRET1",
                                  "access_key_id = SECRET1\naccess_key_id = SECRET1\n",
                                  "access_key_id = a\nsecret_access_key = SECRET1 SECRET1\n", "[a]\n[b]\n"}) {
    const absl::Status refused = read(wrong).status();
    EXPECT_THAT(refused, Fails(Code::kFailedPrecondition, file)) << wrong;
    EXPECT_THAT(MessageOf(refused), Not(HasSubstr("SECRET1")));
  }
  EXPECT_THAT(ReadS3Credentials(folder / "none").status(), Fails(Code::kNotFound, "none"));
}

}  // namespace
}  // namespace lightcone
