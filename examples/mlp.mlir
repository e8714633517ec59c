// Two dense layers with a residual and a softmax over the last axis: a model as `opentrn compile` takes it.
module @mlp {
  func.func public @main(%x: tensor<256x128xf32>, %w1: tensor<128x512xf32>, %b1: tensor<512xf32>,
                         %w2: tensor<512x128xf32>) -> tensor<256x128xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %h = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0]
      : (tensor<256x128xf32>, tensor<128x512xf32>) -> tensor<256x512xf32>
    %b = stablehlo.broadcast_in_dim %b1, dims = [1] : (tensor<512xf32>) -> tensor<256x512xf32>
    %hb = stablehlo.add %h, %b : tensor<256x512xf32>
    %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<256x512xf32>
    %a = stablehlo.maximum %hb, %zeros : tensor<256x512xf32>
    %y = stablehlo.dot_general %a, %w2, contracting_dims = [1] x [0]
      : (tensor<256x512xf32>, tensor<512x128xf32>) -> tensor<256x128xf32>
    %r = stablehlo.add %x, %y : tensor<256x128xf32>
    %m = stablehlo.reduce(%r init: %low) applies stablehlo.maximum across dimensions = [1]
      : (tensor<256x128xf32>, tensor<f32>) -> tensor<256xf32>
    %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<256xf32>) -> tensor<256x128xf32>
    %d = stablehlo.subtract %r, %mb : tensor<256x128xf32>
    %e = stablehlo.exponential %d : tensor<256x128xf32>
    %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<256x128xf32>, tensor<f32>) -> tensor<256xf32>
    %sb = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<256xf32>) -> tensor<256x128xf32>
    %p = stablehlo.divide %e, %sb : tensor<256x128xf32>
    return %p : tensor<256x128xf32>
  }
}
