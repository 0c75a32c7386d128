//! Data sets that others publish: what they are, under which licence, and which files they are.

/// A data set that others publish.
#[derive(PartialEq, Eq, Debug)]
pub struct Published {
    /// Its name, as in `--dataset`, and that of its folder.
    pub name: &'static str,
    /// What is in it.
    pub about: &'static str,
    /// What its publishers say of its use.
    pub licence: &'static str,
    /// Where it is described.
    pub home: &'static str,
    /// What comes before the names of its files, unless `BRASA_DATA_URL_NAME` says otherwise.
    pub address: &'static str,
    /// Its files.
    pub files: &'static [PublishedFile],
}

/// A file as it is published.
#[derive(PartialEq, Eq, Debug)]
pub struct PublishedFile {
    /// Its name.
    pub name: &'static str,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256, as hexadecimal digits.
    pub sha256: &'static str,
    /// A file or folder that stands for it if it is there: what comes out of it.
    pub unpacked: &'static str,
    /// Whether it has to be unpacked, because its members are read one by one.
    pub unpack: bool,
}

impl Published {
    /// All that has to be fetched.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The variable that names another address: `BRASA_DATA_URL_OXFORD_PETS`.
    pub fn variable(&self) -> String {
        format!("BRASA_DATA_URL_{}", self.name.to_uppercase().replace('-', "_"))
    }

    /// Where `file` is fetched from.
    pub fn url(&self, file: &PublishedFile) -> String {
        let base = std::env::var(self.variable()).ok().filter(|base| !base.is_empty());
        format!("{}/{}", base.as_deref().unwrap_or(self.address).trim_end_matches('/'), file.name)
    }
}

/// The set of that name.
pub(super) fn find(name: &str) -> Option<&'static Published> {
    PUBLISHED.iter().find(|set| set.name == name)
}

/// The sets that can be named. Sizes and SHA-256 are those of TensorFlow Datasets' `url_checksums` (MNIST's,
/// Fashion-MNIST's, CIFAR's and Oxford-IIIT Pet's).
pub const PUBLISHED: &[Published] = &[
    Published {
        name: "mnist",
        about: "70,000 handwritten digits, grey, 28x28, 10 classes",
        licence: "CC BY-SA 3.0 (Y. LeCun, C. Cortes, C. Burges)",
        home: "http://yann.lecun.com/exdb/mnist/",
        address: "https://storage.googleapis.com/cvdf-datasets/mnist",
        files: &[
            idx(
                "train-images-idx3-ubyte.gz",
                "train-images-idx3-ubyte",
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            idx(
                "train-labels-idx1-ubyte.gz",
                "train-labels-idx1-ubyte",
                28_881,
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            idx(
                "t10k-images-idx3-ubyte.gz",
                "t10k-images-idx3-ubyte",
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            idx(
                "t10k-labels-idx1-ubyte.gz",
                "t10k-labels-idx1-ubyte",
                4_542,
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ],
    },
    Published {
        name: "fashion-mnist",
        about: "70,000 pictures of clothes, grey, 28x28, 10 classes",
        licence: "MIT (Zalando SE)",
        home: "https://github.com/zalandoresearch/fashion-mnist",
        address: "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        files: &[
            idx(
                "train-images-idx3-ubyte.gz",
                "train-images-idx3-ubyte",
                26_421_880,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            ),
            idx(
                "train-labels-idx1-ubyte.gz",
                "train-labels-idx1-ubyte",
                29_515,
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            ),
            idx(
                "t10k-images-idx3-ubyte.gz",
                "t10k-images-idx3-ubyte",
                4_422_102,
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            ),
            idx(
                "t10k-labels-idx1-ubyte.gz",
                "t10k-labels-idx1-ubyte",
                5_148,
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
        ],
    },
    Published {
        name: "cifar10",
        about: "60,000 photographs, RGB, 32x32, 10 classes",
        licence: "none stated; cite A. Krizhevsky 2009",
        home: "https://www.cs.toronto.edu/~kriz/cifar.html",
        address: "https://www.cs.toronto.edu/~kriz",
        files: &[PublishedFile {
            name: "cifar-10-binary.tar.gz",
            bytes: 170_052_171,
            sha256: "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            unpacked: "cifar-10-batches-bin",
            unpack: false,
        }],
    },
    Published {
        name: "cifar100",
        about: "60,000 photographs, RGB, 32x32, 100 classes (the fine ones)",
        licence: "none stated; cite A. Krizhevsky 2009",
        home: "https://www.cs.toronto.edu/~kriz/cifar.html",
        address: "https://www.cs.toronto.edu/~kriz",
        files: &[PublishedFile {
            name: "cifar-100-binary.tar.gz",
            bytes: 168_513_733,
            sha256: "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            unpacked: "cifar-100-binary",
            unpack: false,
        }],
    },
    Published {
        name: "oxford-pets",
        about: "7,349 photographs of cats and dogs, RGB, sizes differ; masks of animal, background and border",
        licence: "CC BY-SA 4.0 (O. Parkhi, A. Vedaldi, A. Zisserman, C. Jawahar)",
        home: "https://www.robots.ox.ac.uk/~vgg/data/pets/",
        address: "https://www.robots.ox.ac.uk/~vgg/data/pets/data",
        files: &[
            PublishedFile {
                name: "images.tar.gz",
                bytes: 791_918_971,
                sha256: "67195c5e1c01f1ab5f9b6a5d22b8c27a580d896ece458917e61d459337fa318d",
                unpacked: "images",
                unpack: true,
            },
            PublishedFile {
                name: "annotations.tar.gz",
                bytes: 19_173_078,
                sha256: "52425fb6de5c424942b7626b428656fcbd798db970a937df61750c0f1d358e91",
                unpacked: "annotations",
                unpack: true,
            },
        ],
    },
];

/// An IDX file, which is read as it is.
const fn idx(name: &'static str, unpacked: &'static str, bytes: u64, sha256: &'static str) -> PublishedFile {
    PublishedFile { name, bytes, sha256, unpacked, unpack: false }
}
