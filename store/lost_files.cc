#include "store/lost_files.h"

#include <cstdint>
#include <filesystem>
#include <utility>

#include "base/strings.h"

namespace lightcone {
namespace {

// Adds the file where it is missing or short. `holds`: its content.
void CheckFile(LostFile file, const std::string& holds, std::vector<LostFile>* lost) {
  std::error_code error;
  const uintmax_t found = std::filesystem::file_size(file.path, error);
  if (!error && found >= file.bytes) return;
  file.what = StrCat(
      "file '", file.path, "', which holds ", holds, ", ",
      error ? StrCat("cannot be read: ", error.message()) : StrCat("has ", found, " bytes instead of ", file.bytes));
  lost->push_back(std::move(file));
}

}  // namespace

std::vector<LostFile> FindLostFiles(const std::string& folder, rocksdb::DB& db) {
  std::vector<LostFile> lost;
  std::vector<rocksdb::ColumnFamilyMetaData> families;
  db.GetAllColumnFamilyMetaData(&families);
  for (const rocksdb::ColumnFamilyMetaData& family : families) {
    for (const rocksdb::LevelMetaData& level : family.levels) {
      for (const rocksdb::SstFileMetaData& file : level.files) {
        CheckFile({folder + file.name, file.size, "", true},
                  StrCat(file.size, " bytes of rows of table '", family.name, "'"), &lost);
      }
    }
    for (const rocksdb::BlobMetaData& file : family.blob_files) {
      CheckFile({StrCat(folder, "/", file.blob_file_name), file.blob_file_size, "", false},
                StrCat(file.total_blob_count, " values of table '", family.name, "'"), &lost);
    }
  }
  return lost;
}

}  // namespace lightcone
