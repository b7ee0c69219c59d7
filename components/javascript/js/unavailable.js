// Modules that the sandbox does not have.

export default {};
