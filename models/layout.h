// The numbers of the architectures, shared by the networks and by the cost model. Internal to models/.
#pragma once

#include <cstdint>

namespace lightcone::internal {

inline constexpr int kSmallCnnStem = 32;
inline constexpr int kSmallCnnStages[] = {64, 128, 256};
inline constexpr int kResnetStages[] = {64, 128, 256, 512};
inline constexpr int kMlpHidden = 256;

// base x width, rounded to a multiple of 4 (vector units), at least 4.
int64_t Channels(double width, int base);

// The side of a feature map after a 3x3 convolution with stride 2 and padding 1.
int64_t Halved(int64_t pixels);

}  // namespace lightcone::internal
