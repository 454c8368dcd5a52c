// Lets every test of a program search by a device, if the environment says so: LIGHTCONE_TEST_DEVICE is "emulated" or
// "cuda", and LIGHTCONE_TEST_DEVICE_STORAGE "float32" or "fp16" (the default). Segments of any size are copied to it
// before the search that first scans them. A device that is asked for and not there ends the program.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/status.h"
#include "gtest/gtest.h"
#include "index/gpu/serving_device.h"
#include "tests/gpu/emulated_machine.h"

namespace lightcone::gpu {
namespace {

class OnDevice : public testing::Environment {
 public:
  void SetUp() override {
    const char* const asked = std::getenv("LIGHTCONE_TEST_DEVICE");
    if (asked == nullptr) return;
    const char* const storage = std::getenv("LIGHTCONE_TEST_DEVICE_STORAGE");
    DeviceOptions options;
    if (storage != nullptr) options.storage = ParseDeviceStorage(storage).value();
    options.rows_min = 1;
    options.copy_at_once = true;
    options.memory_bytes_max = 256 << 20;
    absl::StatusOr<std::unique_ptr<DeviceMachine>> machine = std::make_unique<EmulatedMachine>();
    if (std::string_view(asked) == "cuda") machine = OpenCudaMachine();
    if (machine.ok()) {
      auto device = ScanDevice::Open(std::move(*machine), options);
      if (device.ok()) return ServeFrom(std::move(*device));
      machine = device.status();
    }
    std::fprintf(stderr, "LIGHTCONE_TEST_DEVICE is '%s': %s\n", asked, MessageOf(machine.status()).c_str());
    std::exit(1);
  }

  void TearDown() override {
    const ServingStatus status = ServingDeviceStatus();
    if (status.state == "none") return;
    std::printf("%s: %lld scans by the device, %lld left to the CPU, %lld segments copied\n", status.state.c_str(),
                static_cast<long long>(status.stats.scans), static_cast<long long>(status.stats.incomplete),
                static_cast<long long>(status.stats.segments_copied));
    EXPECT_EQ(status.state, "serving");
    ServeFrom(nullptr);
  }
};

[[maybe_unused]] const testing::Environment* const kOnDevice = testing::AddGlobalTestEnvironment(new OnDevice);

}  // namespace
}  // namespace lightcone::gpu
