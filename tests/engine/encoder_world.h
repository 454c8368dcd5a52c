// A collection "c" whose generations have real, tiny encoders, registered as TorchScript.
#pragma once

#include <cmath>
#include <string>

#include "models/manifest.h"
#include "tests/engine/engine_testing.h"

namespace torch::jit {
struct Module;
}

namespace lightcone::server {

class EncoderTest : public EngineTest {
 protected:
  static constexpr int kSide = 8;

  void SetUp() override {
    EngineTest::SetUp();
    MakeEncoder(5);
    CreateCollectionCall create;
    create.name = "c";
    ASSERT_TRUE(engine_->CreateCollection(create).ok());
  }
  // Manifest and encoder of a model, another one for every seed.
  void MakeEncoder(uint64_t seed);
  // One that gives half of the numbers 1 .. 4 of a tensor, and has a fault at those whose number 0 is one of these.
  static constexpr float kCrashes = 1'000, kHangs = 2'000, kThrows = 3'000, kIsSlow = 4'000, kEatsMemory = 5'000;
  void MakeFaultyEncoder();
  // One that has the fault of being slow is so until then. It waits for a file: only an encoder that is not locked in
  // can.
  void LetSlowGoOn();
  // One that works at the zeros with which it is tried when it is loaded, and never again.
  void MakeWearyEncoder();
  // One that works at zeros, and at everything else reads the file first, or writes one there.
  enum class Spy { kReads, kWrites };
  void MakeSpyingEncoder(const std::string& path, Spy spy);
  // One that writes a file there while it is loaded.
  void MakeEagerEncoder(const std::string& path);
  // One that gives numbers that are none, or too few of them, at everything but zeros.
  enum class Wrong { kNan, kShape };
  void MakeWrongEncoder(Wrong wrong);
  RegisterCall Call() {
    RegisterCall call;
    call.collection = "c";
    call.manifest_json = ToJson(manifest_);
    call.encoder = encoder_;
    return call;
  }
  static RawInput Tensor(float seed) {
    TensorInput tensor;
    tensor.shape = {1, kSide, kSide};
    for (int i = 0; i < kSide * kSide; ++i) tensor.values.push_back(std::sin(seed + 0.1f * static_cast<float>(i)));
    return tensor;
  }

  Manifest manifest_;
  std::string encoder_;

 private:
  void Save(const torch::jit::Module& module);
  void Describe(const std::string& architecture, uint32_t crc32c);
};

}  // namespace lightcone::server
