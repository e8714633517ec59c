module @jit_function attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<7x7x3x16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<1x1x16x16xf32>, %arg4: tensor<16xf32>, %arg5: tensor<16xf32>, %arg6: tensor<3x3x16x16xf32>, %arg7: tensor<16xf32>, %arg8: tensor<16xf32>, %arg9: tensor<1x1x16x64xf32>, %arg10: tensor<64xf32>, %arg11: tensor<64xf32>, %arg12: tensor<1x1x16x64xf32>, %arg13: tensor<64xf32>, %arg14: tensor<64xf32>, %arg15: tensor<1x1x64x32xf32>, %arg16: tensor<32xf32>, %arg17: tensor<32xf32>, %arg18: tensor<3x3x32x32xf32>, %arg19: tensor<32xf32>, %arg20: tensor<32xf32>, %arg21: tensor<1x1x32x128xf32>, %arg22: tensor<128xf32>, %arg23: tensor<128xf32>, %arg24: tensor<1x1x64x128xf32>, %arg25: tensor<128xf32>, %arg26: tensor<128xf32>, %arg27: tensor<128x10xf32>, %arg28: tensor<10xf32>, %arg29: tensor<1x48x48x3xf32>) -> (tensor<1x10xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.convolution(%arg29, %arg0) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[3, 3], [3, 3]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x48x48x3xf32>, tensor<7x7x3x16xf32>) -> tensor<1x24x24x16xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %2 = stablehlo.add %1, %arg1 : tensor<16xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x24x24x16xf32>
    %5 = stablehlo.multiply %0, %4 : tensor<1x24x24x16xf32>
    %6 = stablehlo.broadcast_in_dim %arg2, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x24x24x16xf32>
    %8 = stablehlo.add %5, %7 : tensor<1x24x24x16xf32>
    %9 = call @relu(%8) : (tensor<1x24x24x16xf32>) -> tensor<1x24x24x16xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<f32>
    %11 = "stablehlo.reduce_window"(%9, %10) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [1, 1], [1, 1], [0, 0]]> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg30: tensor<f32>, %arg31: tensor<f32>):
      %98 = stablehlo.maximum %arg30, %arg31 : tensor<f32>
      stablehlo.return %98 : tensor<f32>
    }) : (tensor<1x24x24x16xf32>, tensor<f32>) -> tensor<1x12x12x16xf32>
    %12 = stablehlo.convolution(%11, %arg3) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x12x12x16xf32>, tensor<1x1x16x16xf32>) -> tensor<1x12x12x16xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %14 = stablehlo.add %13, %arg4 : tensor<16xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x12x12x16xf32>
    %17 = stablehlo.multiply %12, %16 : tensor<1x12x12x16xf32>
    %18 = stablehlo.broadcast_in_dim %arg5, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x12x12x16xf32>
    %20 = stablehlo.add %17, %19 : tensor<1x12x12x16xf32>
    %21 = call @relu_0(%20) : (tensor<1x12x12x16xf32>) -> tensor<1x12x12x16xf32>
    %22 = stablehlo.convolution(%21, %arg6) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x12x12x16xf32>, tensor<3x3x16x16xf32>) -> tensor<1x12x12x16xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<16xf32>
    %24 = stablehlo.add %23, %arg7 : tensor<16xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x12x12x16xf32>
    %27 = stablehlo.multiply %22, %26 : tensor<1x12x12x16xf32>
    %28 = stablehlo.broadcast_in_dim %arg8, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<1x12x12x16xf32>
    %30 = stablehlo.add %27, %29 : tensor<1x12x12x16xf32>
    %31 = call @relu_0(%30) : (tensor<1x12x12x16xf32>) -> tensor<1x12x12x16xf32>
    %32 = stablehlo.convolution(%31, %arg9) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x12x12x16xf32>, tensor<1x1x16x64xf32>) -> tensor<1x12x12x64xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %34 = stablehlo.add %33, %arg10 : tensor<64xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<1x12x12x64xf32>
    %37 = stablehlo.multiply %32, %36 : tensor<1x12x12x64xf32>
    %38 = stablehlo.broadcast_in_dim %arg11, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<1x12x12x64xf32>
    %40 = stablehlo.add %37, %39 : tensor<1x12x12x64xf32>
    %41 = stablehlo.convolution(%11, %arg12) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x12x12x16xf32>, tensor<1x1x16x64xf32>) -> tensor<1x12x12x64xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %43 = stablehlo.add %42, %arg13 : tensor<64xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<1x12x12x64xf32>
    %46 = stablehlo.multiply %41, %45 : tensor<1x12x12x64xf32>
    %47 = stablehlo.broadcast_in_dim %arg14, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %48 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<1x12x12x64xf32>
    %49 = stablehlo.add %46, %48 : tensor<1x12x12x64xf32>
    %50 = stablehlo.add %40, %49 : tensor<1x12x12x64xf32>
    %51 = call @relu_1(%50) : (tensor<1x12x12x64xf32>) -> tensor<1x12x12x64xf32>
    %52 = stablehlo.convolution(%51, %arg15) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x12x12x64xf32>, tensor<1x1x64x32xf32>) -> tensor<1x12x12x32xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %54 = stablehlo.add %53, %arg16 : tensor<32xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [3] : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x12x12x32xf32>
    %57 = stablehlo.multiply %52, %56 : tensor<1x12x12x32xf32>
    %58 = stablehlo.broadcast_in_dim %arg17, dims = [3] : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x12x12x32xf32>
    %60 = stablehlo.add %57, %59 : tensor<1x12x12x32xf32>
    %61 = call @relu_2(%60) : (tensor<1x12x12x32xf32>) -> tensor<1x12x12x32xf32>
    %62 = stablehlo.convolution(%61, %arg18) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x12x12x32xf32>, tensor<3x3x32x32xf32>) -> tensor<1x6x6x32xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<32xf32>
    %64 = stablehlo.add %63, %arg19 : tensor<32xf32>
    %65 = stablehlo.broadcast_in_dim %64, dims = [3] : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %66 = stablehlo.broadcast_in_dim %65, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x6x6x32xf32>
    %67 = stablehlo.multiply %62, %66 : tensor<1x6x6x32xf32>
    %68 = stablehlo.broadcast_in_dim %arg20, dims = [3] : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x6x6x32xf32>
    %70 = stablehlo.add %67, %69 : tensor<1x6x6x32xf32>
    %71 = call @relu_3(%70) : (tensor<1x6x6x32xf32>) -> tensor<1x6x6x32xf32>
    %72 = stablehlo.convolution(%71, %arg21) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x6x6x32xf32>, tensor<1x1x32x128xf32>) -> tensor<1x6x6x128xf32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %74 = stablehlo.add %73, %arg22 : tensor<128xf32>
    %75 = stablehlo.broadcast_in_dim %74, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %76 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<1x6x6x128xf32>
    %77 = stablehlo.multiply %72, %76 : tensor<1x6x6x128xf32>
    %78 = stablehlo.broadcast_in_dim %arg23, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<1x6x6x128xf32>
    %80 = stablehlo.add %77, %79 : tensor<1x6x6x128xf32>
    %81 = stablehlo.convolution(%51, %arg24) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x12x12x64xf32>, tensor<1x1x64x128xf32>) -> tensor<1x6x6x128xf32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %82 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %83 = stablehlo.add %82, %arg25 : tensor<128xf32>
    %84 = stablehlo.broadcast_in_dim %83, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %85 = stablehlo.broadcast_in_dim %84, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<1x6x6x128xf32>
    %86 = stablehlo.multiply %81, %85 : tensor<1x6x6x128xf32>
    %87 = stablehlo.broadcast_in_dim %arg26, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %88 = stablehlo.broadcast_in_dim %87, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<1x6x6x128xf32>
    %89 = stablehlo.add %86, %88 : tensor<1x6x6x128xf32>
    %90 = stablehlo.add %80, %89 : tensor<1x6x6x128xf32>
    %91 = call @relu_4(%90) : (tensor<1x6x6x128xf32>) -> tensor<1x6x6x128xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %92 = stablehlo.reduce(%91 init: %cst_9) applies stablehlo.add across dimensions = [1, 2] : (tensor<1x6x6x128xf32>, tensor<f32>) -> tensor<1x128xf32>
    %cst_10 = stablehlo.constant dense<3.600000e+01> : tensor<f32>
    %93 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<1x128xf32>
    %94 = stablehlo.divide %92, %93 : tensor<1x128xf32>
    %95 = stablehlo.dot_general %94, %arg27, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x128xf32>, tensor<128x10xf32>) -> tensor<1x10xf32>
    %96 = stablehlo.broadcast_in_dim %arg28, dims = [1] : (tensor<10xf32>) -> tensor<1x10xf32>
    %97 = stablehlo.add %95, %96 : tensor<1x10xf32>
    return %97 : tensor<1x10xf32>
  }
  func.func private @relu(%arg0: tensor<1x24x24x16xf32>) -> tensor<1x24x24x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x24x24x16xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x24x24x16xf32>
    return %1 : tensor<1x24x24x16xf32>
  }
  func.func private @relu_0(%arg0: tensor<1x12x12x16xf32>) -> tensor<1x12x12x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x12x12x16xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x12x12x16xf32>
    return %1 : tensor<1x12x12x16xf32>
  }
  func.func private @relu_1(%arg0: tensor<1x12x12x64xf32>) -> tensor<1x12x12x64xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x12x12x64xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x12x12x64xf32>
    return %1 : tensor<1x12x12x64xf32>
  }
  func.func private @relu_2(%arg0: tensor<1x12x12x32xf32>) -> tensor<1x12x12x32xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x12x12x32xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x12x12x32xf32>
    return %1 : tensor<1x12x12x32xf32>
  }
  func.func private @relu_3(%arg0: tensor<1x6x6x32xf32>) -> tensor<1x6x6x32xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x6x6x32xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x6x6x32xf32>
    return %1 : tensor<1x6x6x32xf32>
  }
  func.func private @relu_4(%arg0: tensor<1x6x6x128xf32>) -> tensor<1x6x6x128xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x6x6x128xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x6x6x128xf32>
    return %1 : tensor<1x6x6x128xf32>
  }
}
