// TLS material and files that change.
#include "server/auth/certificates.h"

#include "absl/synchronization/notification.h"
#include "base/files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/auth/file_watch.h"
#include "tests/support/authority.h"
#include "tests/support/temporary_folder.h"

namespace lightcone::server::auth {
namespace {

using testing::HasSubstr;

class CertificatesTest : public testing::Test {
 protected:
  void Write(const Authority::Pair& pair) {
    ASSERT_TRUE(WriteFileAtomically(folder_ / "cert.pem", pair.certificate).ok());
    ASSERT_TRUE(WriteFileAtomically(folder_ / "key.pem", pair.key).ok());
  }

  TemporaryFolder folder_;
  Authority authority_;
  const CertificateOptions options_ = {.certificate_file = folder_ / "cert.pem", .key_file = folder_ / "key.pem"};
};

TEST_F(CertificatesTest, TheCopyHoldsThePairUntilAnotherOneIsWhole) {
  const Authority::Pair first = authority_.Issue("first"), second = authority_.Issue("second");
  Write(first);
  auto certificates = Certificates::Open(options_);
  ASSERT_TRUE(certificates.ok()) << certificates.status();
  const std::string copy = (*certificates)->pair_path();
  EXPECT_EQ(ReadFile(copy).value(), first.key + first.certificate);

  ASSERT_TRUE(WriteFileAtomically(folder_ / "cert.pem", second.certificate).ok());
  EXPECT_THAT(std::string((*certificates)->Reload().message()), HasSubstr("is not that of the certificate"));
  EXPECT_EQ(ReadFile(copy).value(), first.key + first.certificate);
  EXPECT_EQ((*certificates)->figures().failed_reloads_total, 1u);

  ASSERT_TRUE(WriteFileAtomically(folder_ / "key.pem", second.key).ok());
  EXPECT_TRUE((*certificates)->Reload().ok());
  EXPECT_EQ(ReadFile(copy).value(), second.key + second.certificate);
  EXPECT_EQ((*certificates)->figures().reloads_total, 1u);
  EXPECT_GT((*certificates)->figures().not_after, absl::Now());
}

TEST_F(CertificatesTest, TheContextChangesWithThePairAndOldOnesStay) {
  Write(authority_.Issue("first"));
  const auto certificates = Certificates::Open(options_).value();
  const auto first = certificates->context();
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(certificates->Reload().ok());
  EXPECT_EQ(certificates->context(), first) << "nothing changed";
  ASSERT_TRUE(WriteFileAtomically(folder_ / "key.pem", "no key").ok());
  EXPECT_FALSE(certificates->Reload().ok());
  EXPECT_EQ(certificates->context(), first);
  Write(authority_.Issue("second"));
  EXPECT_TRUE(certificates->Reload().ok());
  EXPECT_NE(certificates->context(), first);
  EXPECT_EQ(first.use_count(), 1) << "the transports that began with it keep it";
}

TEST_F(CertificatesTest, WhatIsNoPemIsRefusedWithItsFile) {
  const Authority::Pair pair = authority_.Issue("server");
  EXPECT_EQ(Certificates::Open(options_).status().code(), absl::StatusCode::kNotFound);
  Write({"nothing", pair.key});
  EXPECT_THAT(std::string(Certificates::Open(options_).status().message()),
              HasSubstr("cert.pem' holds no certificate"));
  Write({pair.certificate, "nothing"});
  EXPECT_THAT(std::string(Certificates::Open(options_).status().message()), HasSubstr("key.pem' holds no private key"));
}

TEST(FileWatch, TellsOfAFileThatIsReplaced) {
  TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "keys", "one").ok());
  absl::Notification seen_two;
  FileWatch watch({{{folder / "keys"}, [&] {
                      const auto text = ReadFile(folder / "keys");
                      if (text.ok() && *text == "two" && !seen_two.HasBeenNotified()) seen_two.Notify();
                    }}});
  ASSERT_TRUE(WriteFileAtomically(folder / "keys", "two").ok());
  EXPECT_TRUE(seen_two.WaitForNotificationWithTimeout(absl::Seconds(20)));
}

}  // namespace
}  // namespace lightcone::server::auth
