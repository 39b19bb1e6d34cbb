"""The one compiled part: the records kernel. It is optional, so the install succeeds without a C compiler."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "ottla.records._kernel",
            sources=["src/ottla/records/_kernel.pyx"],
            depends=[
                "src/ottla/records/_record.pxi",
                "src/ottla/records/_columns.pxi",
                "src/ottla/records/_partitions.pxi",
                "src/ottla/records/_cleaning.pxi",
                "src/ottla/records/_scan.pxi",
            ],
            extra_compile_args=["-O3", "-g0"],
            optional=True,
        )
    ]
)
