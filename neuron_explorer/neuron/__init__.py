"""AWS Trainium's ``neuron`` device: the emulator, and what is known of the real one.

Importing this imports neither torch nor torch_neuronx.
"""
