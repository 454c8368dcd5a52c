// Encoders whose files are damaged or forged, given to the server as any other: libtorch reads them in a process that
// is locked in. Whatever becomes of that process, each file is registered or refused by name, the server goes on, and
// nothing outside is written. LIGHTCONE_ENCODER_FUZZ: number of files; each takes the start of a process.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "absl/strings/numbers.h"
#include "base/files.h"
#include "tests/engine/encoder_world.h"

namespace lightcone::server {
namespace {

using testing::HasSubstr;

constexpr int kFiles = 20;

int FilesOfARun() {
  const char* const wanted = std::getenv("LIGHTCONE_ENCODER_FUZZ");
  int files = kFiles;
  if (wanted != nullptr && (!absl::SimpleAtoi(wanted, &files) || files < 1)) files = kFiles;
  return files;
}

class EncoderMutations : public EncoderTest {
 protected:
  void SetUp() override {
    EncoderTest::SetUp();
    engine_.reset();
    EngineOptions options = OptionsFor(folder_.path());
    options.encoder_run_time_max = absl::Seconds(20);
#ifndef LIGHTCONE_SANITIZED  // Its runtime opens files at any time, and its shadow fits no limit.
    options.encoder_sandbox = LockMode::kRequire;
    options.encoder_memory_bytes_max = int64_t{4} << 30;
#endif
    engine_ = OpenEngine(options);
    ASSERT_NE(engine_, nullptr);
    whole_.push_back(encoder_);
    MakeFaultyEncoder();
    whole_.push_back(encoder_);
    MakeSpyingEncoder(outside_ / "written", Spy::kWrites);
    whole_.push_back(encoder_);
    MakeEagerEncoder(outside_ / "written");
    whole_.push_back(encoder_);
  }

  size_t Below(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random_); }
  const std::string& AnyWhole() { return whole_[Below(whole_.size())]; }

  std::string Mutant() {
    std::string file = AnyWhole();
    switch (Below(6)) {
      case 0:
        for (size_t i = 1 + Below(8); i > 0; --i) file[Below(file.size())] ^= static_cast<char>(1 << Below(8));
        break;
      case 1:
        file.resize(Below(file.size()));
        break;
      case 2: {  // the beginning of one and the end of another, as a download that was resumed wrongly
        const std::string& other = AnyWhole();
        file = file.substr(0, Below(file.size())) + other.substr(Below(other.size()));
        break;
      }
      case 3: {
        const size_t at = Below(file.size()), bytes = std::min(file.size() - at, 1 + Below(64));
        for (size_t i = 0; i < bytes; ++i) file[at + i] = static_cast<char>(Below(256));
        break;
      }
      case 4: {
        const size_t from = Below(file.size());
        file.insert(Below(file.size()), file.substr(from, 1 + Below(256)));
        break;
      }
      default:  // code and pickles hold numbers as digits
        for (size_t i = 0; i < 8; ++i) {
          const size_t at = file.find_first_of("0123456789", Below(file.size()));
          if (at != std::string::npos) file[at] = static_cast<char>('0' + Below(10));
        }
    }
    return file;
  }

  // Whether it was registered.
  bool Register(const std::string& file) {
    manifest_.encoder_crc32c = Crc32c(file);
    encoder_ = file;
    const auto made = engine_->RegisterGeneration(Call());
    if (made.ok()) return true;
    EXPECT_NE(made.status().code(), absl::StatusCode::kInternal) << made.status();
    EXPECT_NE(made.status().code(), absl::StatusCode::kUnknown) << made.status();
    EXPECT_THAT(MessageOf(made.status()), HasSubstr("encoder"));
    return false;
  }

  // It serves an input, or says what is wrong with it.
  void Use() {
    Activate(1);
    SearchCall call = SearchFor({}, 1);
    call.queries[0].content = Tensor(0.5F);
    const auto answer = engine_->Search(call, {});
    const absl::Status said = answer.ok() ? answer->results[0].status : answer.status();
    if (!said.ok()) {
      EXPECT_FALSE(MessageOf(said).empty()) << said;
    }
  }

  void RenewCollection() {
    ASSERT_TRUE(engine_->DropCollection("c", "").ok());
    CreateCollectionCall create;
    create.name = "c";
    ASSERT_TRUE(engine_->CreateCollection(create).ok());
  }

  TemporaryFolder outside_;
  std::vector<std::string> whole_;  // files of encoders
  std::mt19937_64 random_{1};
};

TEST_F(EncoderMutations, AreRegisteredOrRefusedByNameAndTheServerGoesOn) {
  const int files = FilesOfARun();
  int registered = 0;
  for (int i = 0; i < files; ++i) {
    SCOPED_TRACE(StrCat("file ", i));
    if (!Register(Mutant())) continue;
    ++registered;
    Use();
    RenewCollection();
    if (HasFatalFailure()) return;
  }
  std::printf("%d of %d damaged files were registered\n", registered, files);
  EXPECT_TRUE(Register(whole_[0])) << "a whole one is registered afterwards";
  Use();
#ifndef LIGHTCONE_SANITIZED
  EXPECT_TRUE(std::filesystem::is_empty(outside_.path())) << "an encoder that reaches for a file wrote it";
#endif
}

}  // namespace
}  // namespace lightcone::server
