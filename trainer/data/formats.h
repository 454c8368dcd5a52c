// The file formats of data sets. Each Open... reads a folder; each Parse... reads bytes in memory, with `what` (the
// path) for messages, and never trusts them. DATA_LOSS: truncated or corrupt; NOT_FOUND: a file is missing;
// INVALID_ARGUMENT: valid, but not what a data set may hold. Threads: all are safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/raw.h"

namespace lightcone {

// CIFAR-100's binary layout: rows of 1 coarse label, 1 fine label, 3 planes (red, green, blue) of 32 x 32 bytes.
// (Krizhevsky 2009; https://www.cs.toronto.edu/~kriz/cifar.html.) Labels are the fine ones.
absl::StatusOr<RawImages> ParseCifar100(std::string_view bytes, std::string_view what);
absl::StatusOr<RawDataset> OpenCifar100(const std::string& folder);

// The MNIST family's idx files: big-endian header (magic 0x00000803 for images, 0x00000801 for labels), then bytes.
absl::StatusOr<RawImages> ParseIdxImages(std::string_view bytes, std::string_view what);
absl::StatusOr<std::vector<int64_t>> ParseIdxLabels(std::string_view bytes, std::string_view what);
absl::StatusOr<RawDataset> OpenIdx(const std::string& folder);

// images.npy uint8 [N,H,W] or [N,H,W,C], labels.npy of any integer type [N], and test_images.npy, test_labels.npy.
// `path` is the folder, or a folder and the beginning of the file names: "DIR/background" reads
// DIR/background_images.npy and DIR/background_labels.npy.
absl::StatusOr<RawDataset> OpenNpySet(const std::string& path);

// One sub folder a class, holding PNG, JPEG or WebP files; or train/ and test/ of such folders.
absl::StatusOr<RawDataset> OpenImageFolders(const std::string& folder);

}  // namespace lightcone
