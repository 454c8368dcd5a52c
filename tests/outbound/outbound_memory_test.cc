// Requests without memory for them: libcurl allocates by functions of this test, which may refuse.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/exceptions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "outbound/curl_easy.h"
#include "outbound/outbound_client.h"

namespace lightcone {
namespace {

using testing::HasSubstr;
using Code = absl::StatusCode;

std::atomic<bool> has_memory{true};

void* Allocate(size_t bytes) { return has_memory ? std::malloc(bytes) : nullptr; }
void* AllocateZeros(size_t count, size_t bytes) { return has_memory ? std::calloc(count, bytes) : nullptr; }
void* Reallocate(void* at, size_t bytes) { return has_memory ? std::realloc(at, bytes) : nullptr; }
void Free(void* at) { std::free(at); }

char* Copy(const char* text) {
  const size_t bytes = std::strlen(text) + 1;
  void* const copy = Allocate(bytes);
  if (copy == nullptr) return nullptr;
  return static_cast<char*>(std::memcpy(copy, text, bytes));
}

class OutboundMemoryTest : public testing::Test {
 protected:
  // Before anybody else sets libcurl up: its allocator is chosen once.
  static void SetUpTestSuite() {
    ASSERT_EQ(curl_global_init_mem(CURL_GLOBAL_DEFAULT, Allocate, Free, Reallocate, Copy, AllocateZeros), CURLE_OK);
  }
  // What comes of the work while libcurl has no memory.
  template <typename Work>
  static absl::Status WithoutMemory(const Work& work) {
    has_memory = false;
    absl::Status status;
    try {
      status = work();
    } catch (...) {
      status = StatusOfException();
    }
    has_memory = true;
    return status;
  }
  static void ExpectNoMemory(const absl::Status& status) {
    EXPECT_EQ(status.code(), Code::kResourceExhausted) << status;
    EXPECT_THAT(MessageOf(status), HasSubstr("out of memory"));
  }
};

TEST_F(OutboundMemoryTest, AnOptionOrAMethodWithoutMemoryForItIsNoErrorOfLibcurl) {
  const CurlEasy easy = MakeCurlEasy();
  ASSERT_NE(easy, nullptr);
  ExpectNoMemory(WithoutMemory([&] { return SetText(easy.get(), CURLOPT_URL, "http://127.0.0.1/"); }));
  ExpectNoMemory(WithoutMemory([&] { return SetMethod(easy.get(), "DELETE", ""); }));
  EXPECT_TRUE(SetText(easy.get(), CURLOPT_URL, "http://127.0.0.1/").ok());
  EXPECT_EQ(SetText(easy.get(), CURLOPT_PROTOCOLS_STR, "carrier-pigeon").code(), Code::kInternal);
}

TEST_F(OutboundMemoryTest, ARequestWithoutMemoryBlamesNoServer) {
  OutboundClient client;
  const OutboundRequest request{.url = "http://127.0.0.1:9/"};
  ExpectNoMemory(WithoutMemory([&] { return client.Send(request).status(); }));
}

}  // namespace
}  // namespace lightcone
