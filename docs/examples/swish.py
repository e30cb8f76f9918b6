from ntk_conditioning.networks.activations import Activation, register


def swish(z):
    return z * z.sigmoid()


def swish_derivative(z):
    s = z.sigmoid()
    return s + z * s * (1 - s)


register(Activation("swish", function=swish, derivative=swish_derivative))
