# Image decoding and resizing: apart from the encoders, so that data sets need no libtorch.
lightcone_library(lightcone_image
  SRCS ${CMAKE_CURRENT_LIST_DIR}/image.cc ${CMAKE_CURRENT_LIST_DIR}/image_jpeg.cc ${CMAKE_CURRENT_LIST_DIR}/image_resize.cc
  DEPS lightcone_base PNG::PNG JPEG::JPEG PkgConfig::WEBP)
