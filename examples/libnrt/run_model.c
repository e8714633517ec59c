/* Runs a compiled model through libnrt, as a C program does on a Trainium instance.
 *
 *   opentrn compile model.onnx --output model.neuron     (or OpenTrn's neuronx-cc compile)
 *   run_model model.neuron [INPUT FILE]...               raw bytes for an input; the others are zero
 *
 * Prints each output's name, size and first numbers (as float32 where it is that), and the predicted time. */
#include <nrt/nrt.h>
#include <nrt/nrt_experimental.h>
#include <nrt/opentrn.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                       \
  do {                                                                                                    \
    const NRT_STATUS status = (call);                                                                     \
    if (status != NRT_SUCCESS) {                                                                          \
      fprintf(stderr, "%s: %s: %s\n", #call, nrt_get_status_as_str(status), opentrn_nrt_last_message());  \
      exit(1);                                                                                            \
    }                                                                                                     \
  } while (0)

/* The bytes of a file, which the caller frees. */
static void *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    perror(path);
    exit(1);
  }
  const long length = ftell(file);
  void *bytes = length < 0 ? NULL : malloc((size_t)length + 1);
  rewind(file);
  if (bytes == NULL || fread(bytes, 1, (size_t)length, file) != (size_t)length) {
    perror(path);
    exit(1);
  }
  fclose(file);
  *size = (size_t)length;
  return bytes;
}

/* Writes the file that the command line names for the input, where it names one. */
static void fill(nrt_tensor_t *tensor, const nrt_tensor_info_t *info, int argc, char **argv) {
  for (int i = 2; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], info->name) != 0) continue;
    size_t size = 0;
    void *bytes = read_file(argv[i + 1], &size);
    if (size != info->size) {
      fprintf(stderr, "%s has %zu bytes, the input %s has %zu\n", argv[i + 1], size, info->name, info->size);
      exit(1);
    }
    CHECK(nrt_tensor_write(tensor, bytes, 0, size));
    free(bytes);
  }
}

static void print(const nrt_tensor_t *tensor, const nrt_tensor_info_t *info) {
  printf("%s: %zu bytes", info->name, info->size);
  for (size_t i = 0; info->dtype == NRT_DTYPE_FLOAT32 && i < 4 && (i + 1) * sizeof(float) <= info->size; ++i) {
    float value = 0;
    CHECK(nrt_tensor_read(tensor, &value, i * sizeof value, sizeof value));
    printf(" %g", (double)value);
  }
  printf("\n");
}

int main(int argc, char **argv) {
  if (argc < 2 || argc % 2 != 0) {
    fprintf(stderr, "usage: %s MODEL [INPUT FILE]...\n", argv[0]);
    return 2;
  }
  CHECK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
  size_t size = 0;
  void *program = read_file(argv[1], &size);
  nrt_model_t *model = NULL;
  CHECK(nrt_load(program, size, 0, -1, &model));
  free(program);

  nrt_tensor_info_array_t *infos = NULL;
  CHECK(nrt_get_model_tensor_info(model, &infos));
  nrt_tensor_set_t *sets[2] = {NULL, NULL}; /* inputs, outputs */
  CHECK(nrt_allocate_tensor_set(&sets[0]));
  CHECK(nrt_allocate_tensor_set(&sets[1]));
  nrt_tensor_t **tensors = calloc(infos->tensor_count + 1, sizeof *tensors);
  if (tensors == NULL) return 1;
  for (uint64_t i = 0; i < infos->tensor_count; ++i) {
    const nrt_tensor_info_t *info = &infos->tensor_array[i];
    CHECK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, info->size, info->name, &tensors[i]));
    CHECK(nrt_add_tensor_to_tensor_set(sets[info->usage], info->name, tensors[i]));
    if (info->usage == NRT_TENSOR_USAGE_INPUT) fill(tensors[i], info, argc, argv);
  }

  CHECK(nrt_execute(model, sets[0], sets[1]));
  for (uint64_t i = 0; i < infos->tensor_count; ++i)
    if (infos->tensor_array[i].usage == NRT_TENSOR_USAGE_OUTPUT) print(tensors[i], &infos->tensor_array[i]);
  double nanoseconds = 0;
  CHECK(opentrn_nrt_predicted_ns(model, &nanoseconds));
  printf("predicted: %.2f us\n", nanoseconds / 1e3);

  for (uint64_t i = 0; i < infos->tensor_count; ++i) nrt_tensor_free(&tensors[i]);
  free(tensors);
  nrt_destroy_tensor_set(&sets[0]);
  nrt_destroy_tensor_set(&sets[1]);
  nrt_free_model_tensor_info(infos);
  CHECK(nrt_unload(model));
  nrt_close();
  return 0;
}
